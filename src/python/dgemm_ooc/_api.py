"""The functions, with NumPy's names and order.  Each says what it wants; _run.py does it."""
from __future__ import annotations

import numbers
import os
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple, Union

import numpy as np

from ._errors import UsageError, type_error
from ._operands import matrix
from ._result import Plan, Result
from ._run import Job, Output, Request, Run, product, refuse_unknown, request_of

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from typing_extensions import Unpack

    from ._operands import Operand

Trans = Union[bool, str]
Scalar = Union[complex, "np.number[Any]"]

_TYPES = {"f8": "d", "f4": "s", "c16": "z", "c8": "c"}


@product
def matmul(a: Operand, b: Operand, /, out: Output = None, *, alpha: Scalar = 1.0,
           beta: Scalar = 0.0, c: Optional[Operand] = None, trans_a: Trans = False,
           trans_b: Trans = False, center: Optional[str] = None, scale: Optional[str] = None,
           dtype: Optional[DTypeLike] = None, **run: Unpack[Run]) -> Request:
    """The product alpha op(A) op(B) + beta C.  Blocks until it is complete.

    Parameters
    ----------
    a, b : the matrices, of m x k and k x n elements after op()
    out : "FILE.h5:/path" or a path
        Where C goes.  By default that is beside the first operand that is a file, with -C.h5 at
        its end.  If all operands are arrays, it is a temporary file.
    alpha, beta : numbers
    c : the matrix of m x n elements to add, if beta is not 0
    trans_a, trans_b : False or "N" as it is, True or "T" transposed, "C" conjugate transposed
    center : "rows" or "cols": subtract the mean of each row or column of A first
    scale : "rows" or "cols": then divide by its standard deviation, with the divisor n - 1
    dtype : float64, float32, complex128 or complex64, to which operands are converted
        Needed if they differ in type.  Without it the products of integers are exact, as int64.
    **run : see help(dgemm_ooc)

    Returns
    -------
    Result
        Its `path` names C, its `array` maps it.

    Raises
    ------
    InputError
        if an operand cannot be used, or the output exists and `overwrite` is not given
    UsageError, ResourceError, CheckError, Stopped
        see their help

    Examples
    --------
    >>> a, b = numpy.ones((3, 4)), numpy.ones((5, 4))
    >>> float(dgemm_ooc.matmul(a, b, alpha=2, trans_b=True).array[0, 0])
    8.0
    >>> dgemm_ooc.matmul("input.h5:/A", "input.h5:/B", "product.h5").path
    '.../product.h5:/C'
    """
    if c is None and beta != 0:
        raise UsageError(f"beta={beta} needs the matrix to add, c=")
    asked = _trans("trans_a", trans_a)
    left, turn_a = matrix(a, "a").laid_out(asked)
    right, turn_b = matrix(b, "b").laid_out(_trans("trans_b", trans_b))
    words = ["--transa", turn_a, "--transb", turn_b, "--alpha", _scalar("alpha", alpha),
             "--beta", _scalar("beta", beta), *_type(dtype),
             *_scaling(center, scale, turn_a != asked)]
    matrices = [left, right] + ([] if c is None else [matrix(c, "c")])

    def size() -> Tuple[int, int]:
        return left.shape[turn_a != "N"], right.shape[turn_b == "N"]
    return Request(tuple(matrices), words, out, run, size)


@product
def gram(a: Operand, /, out: Output = None, *, axis: int = 0, center: Optional[str] = None,
         scale: Optional[str] = None, nan: Optional[str] = None, alpha: Scalar = 1.0,
         triangle: str = "full", dtype: Optional[DTypeLike] = None, **run: Unpack[Run]) -> Request:
    """The product of a matrix with its own transpose, in half of the time where that is faster.

    Blocks until it is complete.

    Parameters
    ----------
    a : the matrix, of m x n elements
    out : see matmul
    axis : 0 or 1
        The axis that is summed over, as in NumPy.  0, the default, gives A^T A, of n x n
        elements.  1 gives A A^T, of m x m.  If A is complex, T is the conjugate transpose.
    center : "rows" or "cols": subtract the mean of each row or column of A first
    scale : "rows" or "cols": then divide by its standard deviation, with the divisor n - 1
    nan : "error" (the default), "mean" or "zero": what becomes of NaN in A if it is centred
    alpha : the factor of the product
    triangle : "full"; "lower": C is 0 above the diagonal, and half as much is written; or "packed":
        C is an array of that half alone, row by row, as in a[numpy.tril_indices(len(a))]
    dtype, **run : see matmul

    Returns
    -------
    Result

    Raises
    ------
    the same as matmul

    Examples
    --------
    >>> a = numpy.arange(6.0).reshape(2, 3)
    >>> dgemm_ooc.gram(a).array.shape
    (3, 3)
    >>> kinship = dgemm_ooc.gram("input.h5:/A", "kinship.h5", axis=1, center="cols", scale="cols",
    ...                          nan="mean", overwrite=True)
    """
    if triangle not in ("full", "lower", "packed"):
        raise UsageError(f"triangle={triangle!r}: give 'full', 'lower' or 'packed'")
    words = ["--alpha", _scalar("alpha", alpha)]
    if triangle != "full":
        words += ["--symmetric", triangle]
    if nan is not None:
        words += ["--nan", nan]
    return _symmetric("gram", matrix(a, "a"), _axis(axis), words + _type(dtype), out, run,
                      center=center, scale=scale)


@product
def cov(m: Operand, /, out: Output = None, *, rowvar: bool = True, ddof: int = 1,
        dtype: Optional[DTypeLike] = None, **run: Unpack[Run]) -> Request:
    """The covariances of the variables, as numpy.cov computes them.  Blocks until all are there.

    Parameters
    ----------
    m : the matrix of real numbers
    out : see matmul
    rowvar : True if each row is a variable, False if each column is one
    ddof : covariances are divided by the number of observations less this
    dtype, **run : see matmul; integers need dtype=float

    Returns
    -------
    Result
        The means are beside C in its file, as C_mean.

    Raises
    ------
    the same as matmul

    Examples
    --------
    >>> x = numpy.random.rand(20, 100)
    >>> numpy.allclose(dgemm_ooc.cov(x), numpy.cov(x))
    True
    """
    item = matrix(m, "m")
    if ddof == 1:
        return _symmetric("cov", item, 1 if rowvar else 0, _type(dtype), out, run)
    axis = 1 if rowvar else 0
    count = item.shape[axis] - ddof
    if not isinstance(ddof, numbers.Integral) or count <= 0:
        raise UsageError(f"ddof={ddof}: give a whole number below that of the observations, "
                         f"{item.shape[axis]}")
    return _symmetric("gram", item, axis, ["--alpha", repr(float(1 / count)), *_type(dtype)], out, run,
                      center="rows" if rowvar else "cols")


@product
def corrcoef(x: Operand, /, out: Output = None, *, rowvar: bool = True,
             dtype: Optional[DTypeLike] = None, **run: Unpack[Run]) -> Request:
    """The correlations of the variables, as numpy.corrcoef computes them, but not clipped to 1.

    Blocks until all are there.

    Parameters
    ----------
    x, out, rowvar, dtype, **run : see cov

    Returns
    -------
    Result
        The means and deviations are beside C in its file, as C_mean and C_deviation.

    Raises
    ------
    the same as matmul

    Examples
    --------
    >>> x = numpy.random.rand(20, 100)
    >>> numpy.allclose(dgemm_ooc.corrcoef(x, rowvar=False), numpy.corrcoef(x, rowvar=False))
    True
    """
    return _symmetric("cor", matrix(x, "x"), 1 if rowvar else 0, _type(dtype), out, run)


@product
def cross_cov(a: Operand, b: Operand, /, out: Output = None, *, rowvar: bool = True,
              dtype: Optional[DTypeLike] = None, **run: Unpack[Run]) -> Request:
    """The covariances of each variable of a with each of b, over the same observations.

    numpy.cov(a, b) has them beside those within a and within b.  Blocks until all are there.

    Parameters
    ----------
    a, b : matrices of real numbers, with as many observations
    out, rowvar, dtype, **run : see cov

    Returns
    -------
    Result
        A row for each variable of a, and a column for each of b.  The means are beside C in its
        file, as C_mean and C_mean_b.

    Raises
    ------
    the same as matmul

    Examples
    --------
    >>> a, b = numpy.random.rand(20, 100), numpy.random.rand(30, 100)
    >>> numpy.allclose(dgemm_ooc.cross_cov(a, b), numpy.cov(a, b)[:20, 20:])
    True
    """
    return _crossed("cross-cov", a, b, out, rowvar, dtype, run)


@product
def cross_corrcoef(a: Operand, b: Operand, /, out: Output = None, *, rowvar: bool = True,
                   dtype: Optional[DTypeLike] = None, **run: Unpack[Run]) -> Request:
    """The correlations of each variable of a with each of b, over the same observations.

    Blocks until all are there.

    Parameters
    ----------
    a, b, out, rowvar, dtype, **run : see cross_cov

    Returns
    -------
    Result
        Also C_deviation and C_deviation_b are beside C in its file.

    Raises
    ------
    the same as matmul

    Examples
    --------
    >>> a, b = numpy.random.rand(100, 20), numpy.random.rand(100, 30)
    >>> both = numpy.corrcoef(a, b, rowvar=False)
    >>> numpy.allclose(dgemm_ooc.cross_corrcoef(a, b, rowvar=False), both[:20, 20:])
    True
    """
    return _crossed("cross-cor", a, b, out, rowvar, dtype, run)


@product
def normal(a: Operand, x: Operand, /, out: Output = None, *, alpha: Scalar = 1.0,
           trans: Trans = False, center: Optional[str] = None, scale: Optional[str] = None,
           dtype: Optional[DTypeLike] = None, **run: Unpack[Run]) -> Request:
    """The product A^T (A X), and A X beside it, while A is read once.  Blocks until it is complete.

    It is the step of randomized singular value decompositions, principal components, power
    iterations and least squares.

    Parameters
    ----------
    a : the matrix of real numbers, of m x n elements
    x : the matrix of n x p elements; all of it has to fit into the memory of each GPU, twice
    out : see matmul; a file of HDF5
    alpha : the factor of A^T (A X), not of A X
    trans : True: A A^T X, and A^T X beside it
    center, scale, dtype, **run : see matmul

    Returns
    -------
    Result
        A X is beside C in its file, as C_ab: `beside("ab")` reads it.

    Raises
    ------
    the same as matmul

    Examples
    --------
    >>> a, x = numpy.random.rand(50, 20), numpy.random.rand(20, 3)
    >>> c = dgemm_ooc.normal(a, x)
    >>> numpy.allclose(c, a.T @ (a @ x)), numpy.allclose(c.beside("ab"), a @ x)
    (True, True)
    """
    asked = _trans("trans", trans)
    left, turn = matrix(a, "a").laid_out(asked)
    right = matrix(x, "b")
    words = ["--product", "normal", "--transa", turn, "--alpha", _scalar("alpha", alpha),
             *_type(dtype), *_scaling(center, scale, turn != asked)]

    def size() -> Tuple[int, int]:
        return right.shape[0], right.shape[1]
    return Request((left, right), words, out, run, size)


def plan(function: Callable[..., Result], /, *operands: Any, **keywords: Any) -> Plan:
    """What a call would do, and how long it would take.  Nothing is multiplied.

    Arrays are not written for it.  With `ranks` the plan is for so many, without a launcher.

    Parameters
    ----------
    function : matmul, gram, cov or corrcoef
    *operands, **keywords : those of the call

    Returns
    -------
    Plan
        Its `text` is the plan, `seconds` the predicted time, and `report` has all numbers.

    Raises
    ------
    what the call would raise before it computes

    Examples
    --------
    >>> plan = dgemm_ooc.plan(dgemm_ooc.matmul, "input.h5:/A", "input.h5:/B", ranks=4)
    >>> plan.seconds < 60
    True
    """
    return Job(request_of(function)(*operands, **keywords), dry=True).plan()


def check(out: Union[str, os.PathLike[str], Result], /, **run: Unpack[Run]) -> Result:
    """Check a product in a file against its operands, which are read again.  Blocks meanwhile.

    The file of C says what it was made from.  Operands that were arrays are gone after the call
    that has made C; for these give verify="full" to that call.

    Parameters
    ----------
    out : a Result, "FILE.h5:/path" or a path
    **run : see matmul

    Returns
    -------
    Result
        Its `verdict` is that of this check, its `report` says what error would have been found.

    Raises
    ------
    CheckError
        if C is wrong
    InputError
        if it is not complete, or its operands are not there

    Examples
    --------
    >>> made = dgemm_ooc.matmul("input.h5:/A", "input.h5:/B", "checked.h5")
    >>> dgemm_ooc.check(made).verdict
    'PASSED'
    """
    if not isinstance(out, (str, os.PathLike, Result)):
        raise type_error("out", out, 'give a Result, or "FILE.h5:/path"')
    refuse_unknown("check", run)
    path = out.path if isinstance(out, Result) else out
    return Job(Request((), [], path, run)).check()


def _symmetric(kind: str, item: Any, axis: int, words: List[str], out: Output, run: Run,
               center: Optional[str] = None, scale: Optional[str] = None) -> Request:
    """A product of a matrix with its transpose; arrays in columns are written as rows."""
    trans = "N" if axis else "T"
    complex_array = item.array is not None and item.array.dtype.kind == "c"
    stored, turn = (item, trans) if complex_array else item.laid_out(trans)
    words = ["--product", kind, "--transa", turn, *words, *_scaling(center, scale, turn != trans)]

    def size() -> Tuple[int, int]:
        return (item.shape[1 - axis],) * 2
    return Request((stored,), words, out, run, size)


def _crossed(kind: str, a: Operand, b: Operand, out: Output, rowvar: bool,
             dtype: Optional[DTypeLike], run: Run) -> Request:
    """A product of the variables of two matrices; arrays in columns are written as rows."""
    left, turn_a = matrix(a, "a").laid_out("N" if rowvar else "T")
    right, turn_b = matrix(b, "b").laid_out("T" if rowvar else "N")
    words = ["--product", kind, "--transa", turn_a, "--transb", turn_b, *_type(dtype)]

    def size() -> Tuple[int, int]:
        return left.shape[turn_a != "N"], right.shape[turn_b == "N"]
    return Request((left, right), words, out, run, size)


def _scaling(center: Optional[str], scale: Optional[str], turned: bool) -> List[str]:
    """The options, of the axes of a matrix that is written as its transpose if `turned`."""
    swapped = {"rows": "cols", "cols": "rows"} if turned else {}
    given = (("--center", center), ("--scale", scale))
    return [word for option, axis in given if axis is not None
            for word in (option, swapped.get(axis, axis))]


def _axis(axis: int) -> int:
    if axis not in (0, 1, -1, -2):
        raise UsageError(f"axis={axis}: give 0, to sum over rows (A^T A), or 1 (A A^T)")
    return axis % 2


def _trans(name: str, trans: Trans) -> str:
    if isinstance(trans, (bool, np.bool_)):
        return "T" if trans else "N"
    if trans not in ("N", "T", "C"):
        raise UsageError(f"{name}={trans!r}: give False or 'N', True or 'T', or 'C'")
    return trans


def _scalar(name: str, value: Scalar) -> str:
    """As the program reads it: exactly."""
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if not isinstance(value, numbers.Number):
        raise type_error(name, value, "give a number")
    number = complex(value)
    return repr(number.real) if not number.imag else f"{number.real!r}{number.imag:+}i"


def _type(dtype: Optional[DTypeLike]) -> List[str]:
    if dtype is None:
        return []
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = None
    letter = _TYPES.get(f"{known.kind}{known.itemsize}") if known is not None else None
    if letter is None:
        raise UsageError(f"dtype={dtype!r}: give float64, float32, complex128 or complex64")
    return ["--type", letter]
