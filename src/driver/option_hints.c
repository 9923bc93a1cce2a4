#include "option_hints.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *names; /* with commas between them */
    const char *remedy;
} hints[] = {
    {"memory,mem,m,ram,max-memory,max-mem,memory-limit,mem-limit,mem-per-rank",
     "give --host-memory SIZE, and --gpu-memory SIZE of a GPU, each for one rank"},
    {"threads,thread,nthreads,num-threads,n-threads,max-threads,cores,num-cores,ncores,cpus,"
     "num-cpus,cpus-per-task,jobs,j,omp-num-threads",
     "set OMP_NUM_THREADS=N, the threads of each rank"},
    {"np,nproc,nprocs,nranks,num-ranks,num-procs,processes,procs,ntasks,nodes,p,N,gpus,ngpus,"
     "num-gpus",
     "start N ranks by mpirun -n N dgemm_ooc (or srun -n N), one for each GPU"},
    {"gpu,cpu,cuda,use-gpu,no-gpu,gpu-only,cpu-only", "give --device gpu or --device cpu"},
    {"overwrite,replace,clobber,yes,y", "give --force to replace an output"},
    {"resume,continue,recover", "give the same command again, which resumes (see --restart)"},
    {"input,in,input-file,infile,file,i", "give INPUT.h5 without an option"},
    {"output-file,outfile,out-file,output-path,dest,destination,save-as",
     "give --output FILE.h5[:/path]"},
    {"dataset,datasets,left,right", "give -a NAME and -b NAME"},
    {"precision,single,double,float,float32,float64,fp32,fp64,complex",
     "give --type d or s, and of complex numbers z or c"},
    {"transpose,trans,transpose-a,transpose-b", "give --transa T, --transb T or both"},
    {"cov,covariance,cor,corr,correlation,kinship", "give --product cov, cor or gram"},
    {"time,timeout,time-limit,walltime,max-walltime", "give --max-time TIME"},
    {"interval,checkpoint-interval,save-every,save-interval", "give --checkpoint TIME"},
    {"no-verify,no-check,skip-check", "give --verify off"},
    {"validate,test", "give --verify full, or of an output that is there --check-only"},
    {"seed", "give --check-seed N"},
    {"silent", "give --quiet"},
    {"debug,verbosity", "give --verbose"},
    {"log,log-file,logfile",
     "send what is printed to a file by > FILE, or give --report FILE.json"},
    {"block,block-size,blocksize,tile-size", "give --tile MxNxK"},
    {"algorithm,kernel,method,backend", "give --algo NAME"},
    {"plan,estimate,simulate", "give --dry-run"},
    {"compress,compression,gzip,chunk,chunks", "compress C afterwards, by h5repack -f GZIP=4"},
};

static char plain(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

/* Whether a name, of so many characters, is this one; capitals count for a letter alone. */
static bool is_name(const char *one, size_t length, const char *name)
{
    if (length == 1)
        return name[0] == one[0] && !name[1];
    size_t same = 0;
    while (same < length && name[same] && plain(one[same]) == plain(name[same]))
        same++;
    return same == length && !name[same];
}

static bool is_among(const char *names, const char *name)
{
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
        if (is_name(at, strcspn(at, ","), name))
            return true;
    return false;
}

const char *option_hint(const char *name)
{
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (is_among(hints[i].names, name))
            return hints[i].remedy;
    return NULL;
}
