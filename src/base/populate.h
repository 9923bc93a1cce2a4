/* Populate the pages of a mapping for writing: in the headers since Linux 5.14. */
#pragma once

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
