/* What this program is and what it was built with. */
#ifndef DGEMM_OOC_VERSION_H
#define DGEMM_OOC_VERSION_H

/* "0.1.0 (git abc1234)", then a line of parts: compiler, MPI, HDF5, CUDA. */
const char *version_text(void);

#endif
