"""Products of matrices that are larger than memory, from HDF5 file to HDF5 file.

    >>> import numpy, dgemm_ooc
    >>> a, b = numpy.random.rand(300, 200), numpy.random.rand(200, 100)
    >>> c = dgemm_ooc.matmul(a, b)
    >>> numpy.allclose(c, a @ b)
    True

Each call starts the program dgemm_ooc, and waits until it ends.  Operands are "FILE.h5:/path", a
path, a dataset of h5py, a NumPy array or an earlier Result.  A path stands for its only dataset,
or for the one with the name of the operand, in capitals.

These keywords say how a call is run.  Each is an option of the program (man dgemm_ooc).

ranks           The number of ranks; None is a run without a launcher.
launcher        "auto", "none", or the words of a launcher of MPI, to which -n RANKS is added.
comm            A communicator of mpi4py.  Its ranks call together, and multiply in this process.
gpu_memory      The limit of each rank, in bytes or as "8G"; also host_memory.
algo            The kernel.
verify          "off", "online" (the default), or "full".
checkpoint      How often the run saves, in seconds or as "15m".
max_time        When the run saves and stops, in seconds or as "3h50m".
overwrite       Whether an existing output is replaced.
progress        None: a bar on a terminal or in a notebook; False: none; or a function that is
                called with the fraction that is done, and the seconds that are left, or None.
program         The program to start.
options         Further words of the command line.

All errors are an Error, but for TypeErrors.  The texts name options of the program: --type is
dtype here, --force is overwrite, --output is out, and --transa is trans_a.
"""
from ._api import (check, corrcoef, cov, cross_corrcoef, cross_cov, gram, matmul, normal,
                   plan)
from ._errors import (CheckError, Error, InputError, NotCheckedWarning, ResourceError, Stopped,
                      UsageError)
from ._result import Plan, Result
from ._version import __version__

__all__ = ["CheckError", "Error", "InputError", "NotCheckedWarning", "Plan", "ResourceError",
           "Result", "Stopped", "UsageError", "__version__", "check", "corrcoef", "cov",
           "cross_corrcoef", "cross_cov", "gram", "matmul", "normal", "plan"]
