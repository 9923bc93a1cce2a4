"""What a matrix may be: a dataset of a file, or an array, which is written to a temporary file."""
from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, Union

import h5py
import numpy as np

from ._errors import InputError, ResourceError, UsageError, type_error
from ._result import Result, is_npy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Operand = Union[str, os.PathLike[str], h5py.Dataset, NDArray[Any], Result]

_BLOCK = 64 << 20  # bytes that are written at a time
_MEMORY = "/dev/shm"
_TEMPORARY = ".dgemm_ooc-"
_MAPPED = "f2 f4 f8 c8 c16 b1 i1 i2 i4 i8 u1 u2 u4".split()  # elements that the program reads


def split(text: str) -> Tuple[str, str]:
    """The absolute path and the dataset of "FILE.h5:/path"; as the program does, also without /.
    Of "FILE[0:9]" the slice alone."""
    if "://" in text:  # a URL, which the program refuses
        return text, ""
    base, bracket, indices = text.rpartition("[")
    if indices.endswith("]") and os.path.exists(base) and not os.path.exists(text):
        return os.path.abspath(base), bracket + indices
    colons = [i for i, letter in enumerate(text) if letter == ":"]
    at = len(text) if os.path.exists(text) else text.rfind(":/")
    if at < 0:
        at = next((i for i in reversed(colons) if os.path.exists(text[:i])), len(text))
    return os.path.abspath(text[:at]), text[at + 1:]


@dataclass(frozen=True)
class Matrix:
    """An operand of the call: `name` is the argument, either `file` or `array` is what it holds."""

    name: str
    file: str = ""
    dataset: str = ""
    array: Optional[NDArray[Any]] = None
    kept: Any = field(default=None, repr=False)  # whose temporary files must last as long

    @property
    def word(self) -> str:
        colon = ":" if self.dataset and self.dataset[0] != "[" else ""
        return self.file + colon + self.dataset

    @property
    def shape(self) -> Tuple[int, ...]:
        if self.array is not None:
            return self.array.shape
        try:
            if is_npy(self.file):
                rows, columns = _taken(np.load(self.file, mmap_mode="r").shape, self.dataset)
                return rows, columns
            with h5py.File(self.file, "r") as file:
                rows, columns = _shape(file, self.dataset)
                return rows, columns
        except (OSError, LookupError, AttributeError, TypeError, ValueError) as reason:
            raise InputError(f"{self.name}: the extents of {self.word} cannot be read ({reason}): "
                             "name a dataset of two dimensions by FILE.h5:/path") from None

    def laid_out(self, trans: str) -> Tuple[Matrix, str]:
        """An array in columns as its transpose, which is in rows, and the transposition of that."""
        array = self.array
        if array is None:
            return self, trans
        if trans == "C" and array.dtype.kind != "c":
            trans = "T"
        if trans == "C" or not _is_in_columns(array):
            return self, trans
        return replace(self, array=array.T), "N" if trans == "T" else "T"

    @property
    def place(self) -> Any:
        """Equal for arrays that are the same elements of the same memory."""
        assert self.array is not None
        about = self.array.__array_interface__
        return about["data"][0], about["shape"], self.array.strides, about["typestr"]


def _shape(file: h5py.File, dataset: str) -> Tuple[int, ...]:
    """The extents of a dataset, or of a slice of one, "/A[0:9, ::2]"."""
    name, _, indices = dataset.rpartition("[")
    if dataset in file or not name:
        shape: Tuple[int, ...] = file[dataset].shape
        return shape
    return _taken(file[name].shape, indices)


def _taken(shape: Tuple[int, ...], indices: str) -> Tuple[int, ...]:
    taken = tuple(map(_index, indices.strip("[]").split(","))) if indices else ()
    return np.broadcast_to(np.int8(0), shape)[taken].shape


def _index(word: str) -> Union[int, slice, None]:
    if ":" in word:
        return slice(*(int(part) if part.strip() else None for part in word.split(":")))
    return None if word.strip() == "None" else int(word)


def _is_in_columns(array: NDArray[Any]) -> bool:
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)


def matrix(value: Operand, name: str) -> Matrix:
    """The operand that an argument is; it is not yet looked for."""
    if isinstance(value, Result):
        file, dataset = split(value.path)
        return Matrix(name, file, dataset, kept=value)
    if isinstance(value, (str, os.PathLike)):
        file, dataset = split(os.fspath(value))
        whole = not dataset or dataset[0] == "["
        if whole and "://" not in file and not file.lower().endswith((".npy", ".bed")):
            default = "/" + (name if name in "bc" else "a").upper()
            dataset = (_only_dataset(file) or default) + dataset
        return Matrix(name, file, dataset)
    if isinstance(value, h5py.Dataset):
        return _opened(value, name)
    if isinstance(value, np.ndarray):
        return Matrix(name, array=_usable(value, name))
    if isinstance(value, h5py.Group):
        raise type_error(name, value, 'name a dataset of it, as f["A"]')
    raise type_error(name, value, 'give "FILE.h5:/path", a dataset of h5py or a NumPy array, as '
                     "numpy.asarray makes one")


def _only_dataset(path: str) -> str:
    """The one dataset at the top of a file; the program says what is wrong with others."""
    try:
        with h5py.File(path, "r") as file:
            found = [name for name in file if isinstance(file.get(name), h5py.Dataset)]
    except OSError:
        return ""
    return "/" + found[0] if len(found) == 1 else ""


def _opened(dataset: h5py.Dataset, name: str) -> Matrix:
    if not dataset:
        raise UsageError(f"{name} is a dataset of a file that is closed: name it by FILE.h5:/path")
    file = dataset.file
    if file.driver not in ("sec2", "stdio", "mpio") or not dataset.name:
        raise UsageError(f"{name} is a dataset that other programs cannot open: give {name}[()]")
    if file.mode == "r+":
        file.flush()
    return Matrix(name, os.path.abspath(file.filename), dataset.name)


def _usable(array: NDArray[Any], name: str) -> NDArray[Any]:
    if isinstance(array, np.ma.MaskedArray):
        raise UsageError(f"{name} is masked: fill it, as {name}.filled(numpy.nan) does")
    if array.ndim != 2:
        raise UsageError(f"{name} has {array.ndim} dimensions, not two: "
                         f"{name}.reshape(-1, 1) makes a column of it")
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "biufc" or size > (16 if kind == "c" else 8):
        raise UsageError(f"{name} has elements of type {array.dtype}: convert them, as "
                         f"{name}.astype('{'c16' if kind == 'c' else 'f8'}') does")
    return array


def in_its_file(array: NDArray[Any]) -> str:
    """The name of the elements in the file that they are mapped from; empty: they are in none.

    The kernel says what is mapped, and how that is called now: an array that is a part of a memmap
    does not know its place, and the file of its name may be another one.
    """
    if not array.flags.c_contiguous or array.dtype.str[1:] not in _MAPPED or array.size == 0:
        return ""
    first = array.__array_interface__["data"][0]
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                span, how, offset, _, _, *path = line.rstrip("\n").split(None, 5)
                begin, end = (int(number, 16) for number in span.split("-"))
                if begin <= first and first + array.nbytes <= end:
                    break
            else:
                return ""
    except OSError:
        return ""
    # Private, a device, gone, or under a name that the program would not understand.
    if how[3] != "s" or not path or not os.path.isfile(path[0]) or set(path[0]) & set(":[\\"):
        return ""
    rows, cols = array.shape
    return f"{path[0]}:{array.dtype.str}:{rows}x{cols}@{int(offset, 16) + first - begin}"


def _remove(path: str, owner: int) -> None:
    """Not from a process that was forked, and has a copy of the object."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def is_temporary(path: str) -> bool:
    """Whether it is a file of a Scratch, which goes with a Result."""
    return os.path.basename(os.path.dirname(path)).startswith(_TEMPORARY)


class Scratch:
    """A folder for temporary files, which is removed with this object."""

    def __init__(self, folder: Optional[str]) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder))
        except OSError as reason:
            raise InputError(f"no temporary folder can be made in {folder} ({reason.strerror}): "
                             "give out= in a folder that you may write") from None
        self._remove = weakref.finalize(self, _remove, str(self.path), os.getpid())

    def close(self) -> None:
        self._remove()

    def plain(self, text: str) -> str:
        """A text of the program, in which arrays have the names of their arguments."""
        return text.replace(f"{self.path}/", "").replace(".h5:/array", "")


def folder_for(size: int) -> str:
    """In memory if half of what is free there holds so many bytes, else the temporary folder."""
    try:
        free = shutil.disk_usage(_MEMORY).free
    except OSError:
        return tempfile.gettempdir()
    in_memory = size <= free / 2 and os.access(_MEMORY, os.W_OK)
    return _MEMORY if in_memory else tempfile.gettempdir()


def names(matrices: Tuple[Matrix, ...], scratch: Scratch, fill: bool, local: bool) -> Dict[str, str]:
    """The names of the operands on the command line.  Arrays are written, each only once, but for
    those that are mapped from a file, if no other computer reads it."""
    written: Dict[Any, str] = {}
    found = {}
    for item in matrices:
        if item.array is None:
            found[item.name] = item.word
        else:
            if item.place not in written and local:
                written[item.place] = in_its_file(item.array)
            if not written.get(item.place):
                path = scratch.path / f"{item.name}.h5"
                _write(path, item, fill)
                written[item.place] = f"{path}:/array"
            found[item.name] = written[item.place]
    return found


def _write(path: Path, item: Matrix, fill: bool) -> None:
    """In rows, contiguous, of native bytes, a block at a time.  Without `fill`: as if written."""
    array = item.array
    assert array is not None
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    kind = h5py.h5t.py_create(array.dtype.newbyteorder("="), logical=True)
    rows = max(1, _BLOCK // max(1, array.itemsize * array.shape[1]))
    try:
        with h5py.File(path, "w") as file:
            space = h5py.h5s.create_simple(array.shape)
            data = h5py.Dataset(h5py.h5d.create(file.id, b"array", kind, space, plist))
            for start in range(0, array.shape[0] if fill else 0, rows):
                data[start:start + rows] = array[start:start + rows]
    except OSError as reason:
        raise ResourceError(f"{item.name} cannot be written to {path.parent} ({reason}): write it "
                            "to an HDF5 file, and name that") from None
