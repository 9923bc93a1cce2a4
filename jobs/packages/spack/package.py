# A recipe for a repository of Spack 1.0 or later, as packages/dgemm_ooc/package.py.  In the folder of the
# tarball of `make dist`, run: spack install --no-checksum dgemm-ooc
import os

from spack.package import *
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.makefile import MakefilePackage


class DgemmOoc(MakefilePackage, CudaPackage):
    """C = alpha op(A) op(B) + beta C for matrices larger than memory, from HDF5 file to HDF5 file,
    on any number of MPI ranks, and on GPUs where it is built with CUDA."""

    url = f"file://{os.getcwd()}/dgemm_ooc-0.1.0.tar.gz"
    manual_download = True

    license("BSD-3-Clause")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("mpi")
    depends_on("hdf5@1.10.5:")
    depends_on("libdeflate")
    depends_on("xxhash")
    depends_on("jansson")
    depends_on("hwloc")

    conflicts("%gcc@:8", msg="vectors of another type want GCC 9")
    conflicts("platform=darwin", msg="Linux only")
    conflicts("platform=windows", msg="Linux only")

    @property
    def settings(self):
        spec = self.spec
        words = [f"MPICC={spec['mpi'].mpicc}", f"HDF5_HOME={spec['hdf5'].prefix}"]
        if not spec.satisfies("+cuda"):
            return [*words, "CUDA=0"]
        words += ["CUDA=1", f"CUDA_HOME={spec['cuda'].prefix}"]
        arches = spec.variants["cuda_arch"].value
        return words if arches == ("none",) else [*words, f"CUDA_ARCH={' '.join(arches)}"]

    @property
    def build_targets(self):
        return [*self.settings, "all"]

    @property
    def install_targets(self):
        return [*self.settings, f"PREFIX={self.prefix}", "install"]
