help([[
C = alpha op(A) op(B) + beta C for matrices larger than memory, from HDF5 file to HDF5 file.

  dgemm_ooc input.h5             on its own, or by mpirun or srun on any number of ranks
  man dgemm_ooc                  tells more; also h5mat
  @JOBSDIR@   job scripts
]])
whatis("Name: dgemm_ooc")
whatis("Version: @VERSION@")
whatis("Description: out-of-core matrix product on MPI ranks and GPUs")
prepend_path("PATH", "@BINDIR@")
prepend_path("MANPATH", "@MANDIR@")
prepend_path("PYTHONPATH", "@PYTHONDIR@")
prepend_path("LD_LIBRARY_PATH", "@LIBDIR@")
prepend_path("PKG_CONFIG_PATH", "@LIBDIR@/pkgconfig")
append_path("MANPATH", "") -- the empty entry stands for the system's pages
