#include "version.h"

#include "comm.h"
#include "format.h"
#include "text.h"

#ifndef DGEMM_OOC_GIT /* not built in a git repository, but maybe from a tarball of one */
#define DGEMM_OOC_GIT (archived[0] == '$' ? "no git" : archived)
static const char archived[] = "$Format:git %h$"; /* filled in by git archive: .gitattributes */
#endif

const char *version_text(void)
{
    char mpi[128];
    comm_version(mpi, sizeof mpi);
    return text_make("%s (%s)\nbuilt with gcc %s, %s, %s, %s", DGEMM_OOC_RELEASE, DGEMM_OOC_GIT,
                     __VERSION__, mpi, format_versions(),
#ifdef HAVE_CUDA
                     "CUDA for " DGEMM_OOC_ARCHES
#else
                     "no CUDA: runs on the CPU only"
#endif
    );
}
