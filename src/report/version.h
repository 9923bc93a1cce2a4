/* What this program is and what it was built with. */
#pragma once

/* "0.1.0 (git abc1234)", then a line of parts: compiler, MPI, HDF5, CUDA. */
const char *version_text(void);
