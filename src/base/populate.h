/* Populate the pages of a mapping for writing: in the headers since Linux 5.14. */
#ifndef DGEMM_OOC_POPULATE_H
#define DGEMM_OOC_POPULATE_H

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#endif
