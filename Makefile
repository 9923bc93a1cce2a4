# dgemm_ooc.  `make help` lists the targets; every variable below can be set on the command line.
,          := ,
# One goal is made on all CPUs, unless -j says otherwise; several, one after the other.
ifeq ($(MAKELEVEL)$(word 2,$(filter-out setup,$(MAKECMDGOALS))),0)
MAKEFLAGS  += -j$(shell nproc)
endif
ifneq ($(filter setup,$(MAKECMDGOALS)),)
# A make that starts after setup is needed to see what setup has installed: one, for all goals.
GOALS := $(filter-out setup,$(MAKECMDGOALS))
.PHONY: $(MAKECMDGOALS)
setup:
	@sh tests/setup.sh $(GOALS)
	$(if $(GOALS),@$(MAKE) --no-print-directory $(GOALS))
$(GOALS): setup
	@:
else

VERSION    := 0.1.0
PREFIX     ?= /usr/local
DESTDIR    ?=
DIST       ?= .
BUILD      ?= build$(if $(SANITIZE),-$(firstword $(subst $(,), ,$(SANITIZE))))
SANITIZE   ?=
CFLAGS     ?= -O2 -g
CUDA_HOME  ?= $(patsubst %/bin/nvcc,%,$(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
CUDA       ?= $(if $(wildcard $(CUDA_HOME)/bin/nvcc),1,0)
# The data-centre architectures that this nvcc supports.
CUDA_ARCH  ?= $(patsubst sm_%,%,$(filter sm_80 sm_90 sm_100,$(shell $(CUDA_HOME)/bin/nvcc --list-gpu-code 2>/dev/null)))
MPI_HOME   ?=
HDF5_HOME  ?=
HDF5       ?= $(firstword $(shell for p in hdf5-serial hdf5 hdf5-openmpi; do pkg-config --exists $$p && echo $$p; done))
MPICC      ?= $(if $(MPI_HOME),$(MPI_HOME)/bin/mpicc,mpicc)
# The first Python of PATH that has these packages: a virtual environment that lacks them may come first.
python_with = $(or $(shell IFS=:; for d in $$PATH /usr/bin; do \
                "$$d/python3" -c "import $(1)" 2>/dev/null && echo "$$d/python3" && break; done),$(2))
PYTHON     ?= $(call python_with,h5py$(,) numpy,python3)
# The same for tests, which need pytest, too.
TESTPYTHON ?= $(if $(filter file,$(origin PYTHON)),$(call python_with,h5py$(,) numpy$(,) pytest,$(PYTHON)),$(PYTHON))
V          ?= 0
MAKEFLAGS  += --no-builtin-rules
Q          := $(if $(filter 1,$(V)),,@)

HDF5_CFLAGS := $(if $(HDF5_HOME),-I$(HDF5_HOME)/include,$(shell pkg-config --cflags $(HDF5) 2>/dev/null))
HDF5_LIBS   := $(if $(HDF5_HOME),-L$(HDF5_HOME)/lib -Wl$(,)-rpath$(,)$(HDF5_HOME)/lib -lhdf5,$(shell pkg-config --libs $(HDF5) 2>/dev/null))
GIT         := $(if $(wildcard .git),$(shell git describe --always --dirty 2>/dev/null))

# Open MPI itself leaks, so leak detection is off.
SANITIZED   := $(if $(SANITIZE),DGEMM_OOC_SANITIZED=1 ASAN_OPTIONS=detect_leaks=0)

SANITIZERS  := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Werror=implicit-function-declaration
FLAGS    := -std=gnu11 -D_GNU_SOURCE -fPIC -fno-semantic-interposition -fopenmp -ffp-contract=off $(WARNINGS) $(CPPFLAGS) $(CFLAGS) \
            -DDGEMM_OOC_RELEASE='"$(VERSION)"' $(HDF5_CFLAGS) \
            $(SANITIZERS)
LIBS     := $(LDFLAGS) $(HDF5_LIBS) -ldeflate -lxxhash -ljansson -lhwloc -lpthread -lm -ldl

# The layers of src/README.md: files of a folder may include only headers of the folders listed here.
INCLUDES_src/base    := src/base
INCLUDES_io          := src/base io
INCLUDES_kernels     := src/base kernels
INCLUDES_src/problem := src/base io kernels src/problem
INCLUDES_src/machine := $(INCLUDES_src/problem) src/machine
INCLUDES_src/plan    := $(INCLUDES_src/machine) src/plan
INCLUDES_src/ranks   := $(INCLUDES_src/plan) src/ranks
INCLUDES_src/record  := $(INCLUDES_src/ranks) src/record
INCLUDES_src/check   := $(INCLUDES_src/record) src/check
INCLUDES_src/run     := $(INCLUDES_src/check) src/run
INCLUDES_src/report  := $(INCLUDES_src/run) src/report
INCLUDES_src/driver  := $(INCLUDES_src/report) src/driver
INCLUDES_src/library := $(INCLUDES_src/driver) src/library
INCLUDES_src/tools   := $(INCLUDES_src/library) src/tools
# For the file being compiled; main.c and the tests may include all headers.
INCLUDES = $(addprefix -I,$(or $(INCLUDES_$(patsubst %/,%,$(dir $<))),$(INCLUDES_src/tools)))

TOOLS   := $(wildcard src/tools/h5mat*.c)
SOURCES := $(filter-out $(TOOLS) kernels/cpu_kernel.c,$(wildcard src/*/*.c io/*.c kernels/*.c))
# Files that are kernels' records when they are compiled as C (kernels/kernel.h).
RECORDS := $(shell grep -l '^const struct kernel ' kernels/*.cu)
ifeq ($(CUDA),1)
  SOURCES := $(filter-out kernels/device_none.c,$(SOURCES)) $(wildcard kernels/*.cu)
  FLAGS   += -DHAVE_CUDA -DCUBLAS_DIR='"$(CUDA_HOME)/lib64"' -I$(CUDA_HOME)/include -DDGEMM_OOC_ARCHES='"$(CUDA_ARCH:%=sm_%)"'
  LIBS    += -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -lstdc++
  NEWEST  := $(lastword $(CUDA_ARCH))
  NVFLAGS := -O3 -std=c++17 $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(NEWEST),code=compute_$(NEWEST) -Xcompiler -fPIC,-Wall,-Wextra
else
  SOURCES := $(filter-out kernels/device_cuda.c,$(SOURCES))
endif

# The CPU kernel is compiled once per instruction set; the program selects the best one at run time.
ifeq ($(shell uname -m),x86_64)
  ISAS := avx512 avx2 baseline
else
  ISAS := baseline
endif
# x86-64-v3 and v4, by options that compilers before GCC 11 also support.
ISA_avx2   := -mavx2 -mfma -mbmi -mbmi2 -mlzcnt -mf16c -mmovbe -mpopcnt -mcx16 -msahf
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512
# The HTML page of a run, compiled into the program.
PAGE     := $(BUILD)/src/report/page_template.c
OBJECTS  := $(patsubst %,$(BUILD)/%.o,$(SOURCES)) $(RECORDS:%=$(BUILD)/%.record.o) $(PAGE).o $(ISAS:%=$(BUILD)/kernels/cpu_kernel_%.o)
LIBRARY  := $(BUILD)/libdgemm_ooc.a
# The same for programs of others, who see the functions of dgemm_ooc.h alone.
SONAME   := libdgemm_ooc.so.$(firstword $(subst ., ,$(VERSION)))
SHARED   := $(BUILD)/$(SONAME)
PROGRAMS := $(BUILD)/dgemm_ooc $(BUILD)/h5mat
UNITS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
GPUTESTS := $(if $(filter 1,$(CUDA)),$(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/kernels/test_*.c)))
GEMMBENCH := $(BUILD)/tests/bench/gemm_bench
BENCHES  := $(GEMMBENCH) $(addprefix $(BUILD)/tests/bench/,bench_link $(if $(filter 1,$(CUDA)),bench_check bench_planes rival_xt libcublas_int8.so))

# The program with fault injection for tests, by wrapped system calls (ld --wrap): tests/faults/faults.h.
FAULTY  := $(BUILD)/tests/faults/dgemm_ooc
# Sanitizers have definitions of their own of what disturb.c defines.
FAULTS  := $(patsubst %,$(BUILD)/%.o,$(filter-out $(if $(SANITIZE),%/disturb.c),$(wildcard tests/faults/*.c)))
PRETENDED := computer_number comm_group machine_has_own_memory waits_open pthread_cond_timedwait sums_block plan_prefers_layers
WRAPPED := pread preadv pwrite write fallocate sync_file_range fdatasync fsync rename renameat2 link open stat lstat fstat access ftruncate \
           madvise malloc \
           calloc aligned_alloc posix_memalign mmap pthread_create device_cpu_open $(PRETENDED)

# Programs that multiply themselves: by the steps of a product, and by the library.
CALLERS := $(addprefix $(BUILD)/tests/system/,caller communicators)

# Parsers under libFuzzer, if clang supports it: the parsers are recompiled for it, the rest is linked.
CLANG     ?= clang
FUZZFLAGS := $(filter-out -fopenmp,$(FLAGS)) -g -fsanitize=address,undefined -fno-sanitize-recover=all -Wno-unknown-pragmas
FUZZED    := $(wildcard io/*.c) $(wildcard $(addprefix src/*/,arguments.c environment.c error.c file.c journal.c \
             leftovers.c lock.c machine.c file_names.c operand_state.c option_hints.c option_values.c option_words.c \
             quantity.c))
FUZZERS   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz/fuzz_*.c))
# Whether fuzzers can be built; `make test` skips them otherwise.
ifneq ($(filter test test-programs,$(MAKECMDGOALS)),)
  FUZZABLE := $(if $(SANITIZE),,$(shell echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
                $(CLANG) -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null && echo 1))
endif

# The GPU kernels and the program on the CPU, for tests without a GPU: the same files as plain C++ with an emulated
# runtime, whose fibers ThreadSanitizer does not support.
EMULATION := tests/kernels/emulation
EMULATED  := $(filter-out $(shell grep -l '[.]architecture = ' kernels/*.cu),$(wildcard kernels/*.cu)) kernels/device_cuda.c \
             $(wildcard $(EMULATION)/*.c $(EMULATION)/*.cpp)
EMUOBJECTS := $(patsubst %,$(BUILD)/emulated/%.o,$(EMULATED) $(RECORDS:%=%.record))
ifeq ($(findstring thread,$(SANITIZE)),)
  EMUPROGRAM := $(BUILD)/emulated/dgemm_ooc
  EMUTESTS := $(addprefix $(BUILD)/emulated/,$(basename $(wildcard tests/kernels/test_*.c tests/kernels/test_*.cpp)))
endif
EMUFLAGS  := -std=c++17 -O3 -g -march=native -ftls-model=local-exec -fopenmp -ffp-contract=off -Wall -Wextra \
             -Wno-unknown-pragmas $(SANITIZERS)

.PRECIOUS: $(BUILD)/%.c.o $(BUILD)/emulated/%.c.o $(BUILD)/emulated/%.o # objects of tests too
.PHONY: all help demo needs smoke check check-clang test test-cluster test-fresh test-mpich soak coverage test-gpu fuzz sanitize-gpu bench clean summary settings \
        $(addsuffix -programs,bench check test mpich clang cluster)
all: $(PROGRAMS) $(SHARED)

help:
	@echo "make [all]      build $(PROGRAMS)"
	@echo "make setup      install missing Debian/Ubuntu packages;  make setup GOAL: also for GOAL, and make it"
	@echo "make demo       multiply out of core on 2 ranks, and compare with NumPy"
	@echo "make smoke      a dozen system tests, in a minute;  make check: unit tests"
	@echo "make test       all tests on this computer;  make test-gpu: tests on a GPU"
	@echo "make test-cluster  tests on a Slurm of four nodes, with MPICH (test-mpich) and clang (check-clang)"
	@echo "make test-fresh  the README's commands on empty roots of Debian 12 and 13"
	@echo "make soak       random runs that are killed, damaged or misled: KILLS=400 FLIPS=1000 FILES=200 ..."
	@echo "make coverage   which lines the tests run"
	@echo "make fuzz       fuzz the parsers, with clang;  FUZZ=--help: options"
	@echo "make bench      measure file to file, beside rivals;  BENCH=--help: options"
	@echo "make bench-programs  gemm_bench, which measures and checks the kernels, and other benches"
	@echo "make install    PREFIX=... DESTDIR=...;  uninstall;  clean"
	@echo "make dist       a tarball of HEAD;  make deb: a Debian package of it;  make wheel: the Python package"
	@echo "make sanitize-gpu  memory errors, races and barriers of the kernels, on a GPU"
	@echo "variables       MPICC=mpicc (Cray: cc)  MPI_HOME=  HDF5_HOME=  HDF5=hdf5-openmpi  BUILD=build"
	@echo "                CUDA=0  CUDA_HOME=  CUDA_ARCH='80 90'  SANITIZE=address,undefined  CFLAGS=  V=1"

MADE_WITH = $(MPICC) $(CXX) $(CLANG) $(FLAGS) $(LIBS) $(NVFLAGS) $(EMUFLAGS) $(FUZZFLAGS)
# Rebuild when the compilers or flags change, and print a summary of what was found where.
CHANGED := $(shell echo '$(MADE_WITH)' | cmp -s - $(BUILD)/flags || echo summary needs)
# What was built is installed, and nothing else: sudo drops the environment, where nvcc or CFLAGS may come from.
CHANGED := $(if $(and $(CHANGED),$(filter install,$(MAKECMDGOALS)),$(wildcard $(BUILD)/flags)),settings,$(CHANGED))
$(BUILD)/flags: $(CHANGED)
	@mkdir -p $(@D)
	@echo '$(MADE_WITH)' >$@
FORCE:

settings:
	@echo "make install: $(BUILD)/ was made with other settings (- then, + now):" >&2
	@tr ' ' '\n' <$(BUILD)/flags >$(BUILD)/settings; echo '$(MADE_WITH)' | tr ' ' '\n' | diff -U0 $(BUILD)/settings - | sed -e 1,2d -e '/^@@/d' >&2; \
	  rm $(BUILD)/settings; echo "Give the variables that make had, or run make first.  sudo drops those of the environment." >&2; exit 1

# Report missing headers once, before the compiler does so for each file.
NEEDED := mpi.h hdf5.h libdeflate.h xxhash.h jansson.h hwloc.h
needs:
	@command -v $(firstword $(MPICC)) >/dev/null || \
	  { echo "The MPI compiler $(firstword $(MPICC)) is missing: make setup installs one, or give MPICC= or MPI_HOME=." >&2; exit 1; }
	@for h in $(NEEDED); do echo "#include <$$h>" | $(MPICC) $(FLAGS) -E -xc /dev/stdin >/dev/null 2>&1 || missing="$$missing $$h"; done; \
	  test -z "$$missing" || \
	  { echo "The compiler does not find$$missing: make setup installs all, or give HDF5_HOME= and CPPFLAGS=-I... LDFLAGS=-L..." >&2; exit 1; }

# What some targets need beside, and the target of `make setup` that brings it: asked before anything is compiled.
asked   = $(filter $(1),$(MAKECMDGOALS))
header  = echo '\#include <$(1)>' | $(MPICC) -E -xc -
lacking = @{ $(2); } >/dev/null 2>&1 || { echo "$(1) is missing: make setup $(3) installs it." >&2; exit 1; }
NEEDS  := $(if $(call asked,check% coverage test test-programs test-clu% test-mpich test-gpu),needs-cmocka) \
          $(if $(call asked,check check-clang coverage smoke soak test test-cluster test-fresh test-mpich test-gpu),needs-pytest) \
          $(if $(call asked,bench demo fuzz),needs-numpy) $(if $(call asked,bench),needs-openblas) \
          $(if $(call asked,check-clang clang% fuzz),needs-clang) $(if $(call asked,deb),needs-debhelper) \
          $(if $(call asked,test-gpu),needs-nvcc) $(if $(call asked,wheel),needs-wheel)
.PHONY: $(NEEDS)
$(BUILD)/flags deb clang-programs check-clang mpich-programs: | $(NEEDS)
needs-cmocka:
	$(call lacking,cmocka,$(call header,cmocka.h),test)
needs-pytest:
	$(call lacking,A Python with h5py$(,) NumPy and pytest,$(TESTPYTHON) -c "import h5py$(,) numpy$(,) pytest",test)
needs-numpy:
	$(call lacking,A Python with h5py and NumPy,$(PYTHON) -c "import h5py$(,) numpy",demo)
needs-openblas:
	$(call lacking,OpenBLAS,$(call header,cblas.h),bench)
needs-clang:
	$(call lacking,clang,command -v $(CLANG),fuzz)
needs-debhelper:
	$(call lacking,debhelper,command -v dh && command -v dpkg-buildpackage,deb)
needs-wheel:
	$(call lacking,A Python with setuptools$(,) wheel and pip,$(WHEELPYTHON) -c "import setuptools$(,) wheel$(,) pip",wheel)
needs-nvcc:
	@test $(CUDA) = 1 || { echo "nvcc is missing: install the CUDA Toolkit, and give CUDA_HOME= where it is." >&2; exit 1; }

summary:
	@echo "dgemm_ooc $(VERSION) in $(BUILD)/"
	@echo "  MPI    $$($(MPICC) --showme:version 2>/dev/null || echo '#include <mpi.h>' | $(MPICC) -E -dM -xc - | \
	  sed -nE 's/^.define (MPICH|MVAPICH2?|I_MPI)_VERSION "(.*)"/\1 \2/p' | paste -sd,)"
	@echo "  HDF5   $(if $(HDF5_HOME),$(HDF5_HOME),$(if $(HDF5),$(HDF5) $(shell pkg-config --modversion $(HDF5)),NOT FOUND: make setup, or HDF5_HOME=))"
	@echo "  CUDA   $(if $(filter 1,$(CUDA)),$(CUDA_HOME) for $(CUDA_ARCH:%=sm_%),none: this build runs on the CPU only (CUDA_HOME= where nvcc is))"
	@echo "  demo   $(PYTHON)"
	@echo "  tests  $(TESTPYTHON)"

$(BUILD)/kernels/cpu_kernel_%.o: kernels/cpu_kernel.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC      $< ($*)"
	$(Q)$(MPICC) $(INCLUDES) $(FLAGS) -O3 -ffp-contract=fast $(ISA_$*) -DISA=$* -MMD -MP -c $< -o $@

$(BUILD)/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(MPICC) $(INCLUDES) $(FLAGS) -MMD -MP -c $< -o $@

# The page's parts in one file, as an array of bytes, which every compiler accepts.
PAGE_CSS := src/report/page.css
PAGE_JS  := $(addprefix src/report/,page_kit.js page_timeline.js page.js)
$(PAGE): src/report/page.html $(PAGE_CSS) $(PAGE_JS) Makefile
	@mkdir -p $(@D)
	$(Q)sed -e '/^@STYLE@$$/{r $(PAGE_CSS)' -e 'd;}' -e '/^@SCRIPT@$$/{' $(PAGE_JS:%=-e 'r %') -e 'd;}' $< >$(@:.c=.html)
	$(Q){ echo 'extern const unsigned char page_template[]; const unsigned char page_template[] = {'; \
	  od -An -v -tu1 $(@:.c=.html) | sed 's/[0-9][0-9]*/&,/g'; echo '0};'; } >$@

$(PAGE).o: $(PAGE) $(BUILD)/flags
	@echo "  CC      $<"
	$(Q)$(MPICC) $(FLAGS) -c $< -o $@

# The architecture that the record of a kernel asks for, as 90a: sm_90 with instructions that later GPUs lack.
own = $(shell sed -n 's/.*[.]architecture = "\([^"]*\)".*/\1/p' $<)
# A file takes nvcc up to a minute, in which nothing else may be said.
$(BUILD)/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  NVCC    $<"
	$(Q)(while sleep 8 >/dev/null; do echo "  NVCC    $< ..."; done) & waits=$$!; \
	  $(CUDA_HOME)/bin/nvcc $(INCLUDES) $(subst _$(own:%a=%),_$(own),$(NVFLAGS)) -MMD -MP -MF $(@:.o=.d) -c $< -o $@; status=$$?; kill $$waits; exit $$status

# A kernel's record, in C.
$(BUILD)/%.record.o: % $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC      $< (record)"
	$(Q)$(MPICC) $(INCLUDES) $(FLAGS) -MMD -MP -x c -c $< -o $@

# The version contains the commit, so it is recompiled whenever anything is.
$(BUILD)/src/report/version.c.o: FLAGS += $(if $(GIT),-DDGEMM_OOC_GIT='"git $(GIT)"')
$(BUILD)/src/report/version.c.o: $(filter-out $(BUILD)/src/report/version.c.o,$(OBJECTS))

$(LIBRARY): $(OBJECTS)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/dgemm_ooc: $(BUILD)/src/main.c.o
$(BUILD)/h5mat: $(patsubst %,$(BUILD)/%.o,$(wildcard src/tools/h5mat*.c))
$(GEMMBENCH): $(patsubst %,$(BUILD)/%.o,$(wildcard tests/bench/gemm_bench*.c))
$(SHARED): $(OBJECTS) src/library/dgemm_ooc.map
	@echo "  LINK    $@"
	$(Q)$(MPICC) $(FLAGS) -shared -Wl,-soname,$(SONAME),--version-script,$(filter %.map,$^) $(filter %.o,$^) $(LIBS) -o $@
	$(Q)ln -sf $(SONAME) $(@D)/libdgemm_ooc.so

$(PROGRAMS) $(GEMMBENCH): $(LIBRARY)
	@echo "  LINK    $@"
	$(Q)$(MPICC) $(FLAGS) $(filter %.o,$^) $(LIBRARY) $(LIBS) -o $@

$(BUILD)/tests/%: $(BUILD)/tests/%.c.o $(LIBRARY)
	@echo "  LINK    $@"
	$(Q)$(MPICC) $(FLAGS) $^ $(LIBS) -o $@

$(BUILD)/tests/%: $(BUILD)/tests/%.cu.o $(LIBRARY)
	@echo "  LINK    $@"
	$(Q)$(MPICC) $(FLAGS) $^ $(LIBS) -o $@

# A rival for gemm_bench.  Its own functions come first (-Bsymbolic): the objects are position-independent,
# but not compiled for a library.
$(BUILD)/tests/bench/libcublas_int8.so: $(BUILD)/tests/bench/cublas_int8.cu.o $(LIBRARY)
	@echo "  LINK    $@"
	$(Q)$(MPICC) $(FLAGS) -shared -Wl,-Bsymbolic $^ $(LIBS) -lcublas -Wl,-rpath,$(CUDA_HOME)/lib64 -o $@

$(FAULTY): $(BUILD)/src/main.c.o $(FAULTS) $(LIBRARY)
	@echo "  LINK    $@"
	$(Q)$(MPICC) $(FLAGS) $^ $(WRAPPED:%=-Wl$(,)--wrap=%) $(LIBS) -o $@

$(BUILD)/fuzz/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CLANG   $<"
	$(Q)OMPI_CC=$(CLANG) $(MPICC) $(INCLUDES) $(FUZZFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

# A usage error exits, which would end the fuzzer.
$(BUILD)/fuzz/src/driver/arguments.o: FUZZFLAGS += -Dexit=fuzz_exit

$(BUILD)/fuzz/fuzzed.a: $(FUZZED:%.c=$(BUILD)/fuzz/%.o)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(FUZZERS): $(BUILD)/tests/fuzz/%: $(BUILD)/fuzz/tests/fuzz/%.o $(BUILD)/fuzz/fuzzed.a $(LIBRARY)
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)OMPI_CC=$(CLANG) $(MPICC) $(FUZZFLAGS) -fsanitize=fuzzer $^ -lgomp $(LIBS) -o $@

# Private: prerequisites must not inherit the link flags of a program.
$(BUILD)/tests/unit/% $(BUILD)/tests/kernels/%: private LIBS += -lcmocka
$(BUILD)/tests/bench/bench_gemm_cpu: private LIBS += -lopenblas
# --wrap would also apply to a static CUDA runtime, which does not survive injected faults.
$(FAULTY): private LIBS := $(LIBS:-lcudart_static=-lcudart -Wl,-rpath,$(CUDA_HOME)/lib64)
$(addprefix $(BUILD)/tests/bench/,bench_planes rival_xt): private LIBS += -lcublas -Wl,-rpath,$(CUDA_HOME)/lib64

$(BUILD)/emulated/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC      $< (emulated)"
	$(Q)$(MPICC) -I$(EMULATION) $(INCLUDES) $(FLAGS) -DHAVE_CUDA -MMD -MP -c $< -o $@

# What is not emulated has a record without code.
$(BUILD)/emulated/%.record.o: % $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC      $< (record, emulated)"
	$(Q)$(MPICC) $(INCLUDES) $(FLAGS) $(if $(filter $<,$(EMULATED)),-D,-U)HAVE_CUDA -MMD -MP -x c -c $< -o $@

$(BUILD)/emulated/%.o: % $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CXX     $< (emulated)"
	$(Q)$(CXX) -I$(EMULATION) $(INCLUDES) $(EMUFLAGS) -MMD -MP -x c++ -c $< -o $@

# The whole program on an emulated GPU.
$(BUILD)/emulated/tests/%: private LIBS += -lcmocka
define LINK_EMULATED
@echo "  LINK    $@"
$(Q)$(MPICC) $(FLAGS) $^ $(LIBS) -lstdc++ -o $@
endef
$(BUILD)/emulated/tests/%: $(BUILD)/emulated/tests/%.c.o $(EMUOBJECTS) $(LIBRARY)
	$(LINK_EMULATED)
$(BUILD)/emulated/tests/%: $(BUILD)/emulated/tests/%.cpp.o $(EMUOBJECTS) $(LIBRARY)
	$(LINK_EMULATED)
$(EMUPROGRAM): private LIBS += $(PRETENDED:%=-Wl$(,)--wrap=%)
$(EMUPROGRAM): $(BUILD)/src/main.c.o $(filter %/disturb.c.o %/pretend.c.o,$(FAULTS)) $(EMUOBJECTS) $(LIBRARY)
	$(LINK_EMULATED)

# Ragged shapes, with odd leading dimensions and with aligned ones.  synccheck reports warps that reach
# a barrier from two places in the code, which block_barrier of kernels/ptx.cuh allows, as an error; so
# it checks tensor and tma on whole tiles only, where every warp has work.
RAGGED    := 131x67x37,260x136x68
SANITIZER = $(CUDA_HOME)/bin/compute-sanitizer --error-exitcode 1 --tool
CHECKED   := $(addprefix $(BUILD)/tests/kernels/test_gpu_,freivalds integers ozaki peaks)
sanitize-gpu: $(GEMMBENCH) $(CHECKED)
	@set -e; for tool in memcheck racecheck; do \
	  $(SANITIZER) $$tool $< --algo 0,1,2,3,4,5,6 --sweep --size $(RAGGED) --repeat 1; \
	  for test in $(CHECKED); do $(SANITIZER) $$tool $$test; done; \
	done
	@$(SANITIZER) synccheck $< --algo 0,1,2,3,4 --sweep --size $(RAGGED) --repeat 1
	@$(SANITIZER) synccheck $< --algo 5,6 --size 256x256x68 --repeat 1

demo: all
	@DGEMM_OOC_BUILD=$(BUILD) $(PYTHON) tests/demo.py

# Six test files at a time, if pytest-xdist is installed: half of the time runs and launchers wait.
SPREAD = $(shell $(TESTPYTHON) -c "import xdist" 2>/dev/null && echo "-n 6 --dist loadfile")
PYTEST = DGEMM_OOC_BUILD=$(BUILD) $(SANITIZED) $(TESTPYTHON) -m pytest -q

smoke: all $(FAULTY)
	@$(PYTEST) $(SPREAD) -m smoke tests/system

check-programs: all $(UNITS)
# TRIALS=100%: all random cases, and those that take long.
TRIALS ?= 5%
FEW     = DGEMM_OOC_TEST_TRIALS=$(TRIALS)
check: check-programs
	@$(FEW) $(PYTEST) $(SPREAD) tests/unit

test-programs: check-programs $(GPUTESTS) $(EMUTESTS) $(EMUPROGRAM) $(BENCHES) $(FAULTY) $(CALLERS) $(if $(FUZZABLE),$(FUZZERS))
test: test-programs
	@$(FEW) $(PYTEST) $(SPREAD) -m "not cluster and not fresh" tests

# Tests of several nodes, another MPI and another compiler.
cluster-programs: all $(FAULTY) mpich-programs clang-programs
test-cluster: all $(FAULTY) test-mpich check-clang
	@$(PYTEST) $(SPREAD) -m cluster tests/system

# The README's commands on empty machines: HEAD, not what is built here.  Roots are kept in /var/tmp/dgemm_ooc-roots.
test-fresh:
	@$(PYTEST) $(SPREAD:loadfile=loadgroup) -m fresh tests/fresh

# Each has its own build.  MPICH_TESTS=tests/system: all tests.
MPICH       ?= mpicc.mpich
MPICH_TESTS ?= $(patsubst %,tests/system/test_%.py,computers interrupted launches library locks nodes product ranks restart sums)
mpich-programs: BUILT := $(BUILD)-mpich
mpich-programs:
	@$(MAKE) --no-print-directory CUDA=0 MPICC=$(MPICH) BUILD=$(BUILT) all $(addprefix $(BUILT)/,emulated/dgemm_ooc tests/faults/dgemm_ooc tests/system/caller tests/system/communicators tests/bench/bench_link)
test-mpich: mpich-programs
	@DGEMM_OOC_BUILD=$(BUILD)-mpich $(TESTPYTHON) -m pytest -q $(SPREAD) $(MPICH_TESTS)

WITH_CLANG = +@OMPI_CC=$(CLANG) $(MAKE) --no-print-directory CUDA=0 CFLAGS="-O2 -g -Werror" BUILD=$(BUILD)-clang
clang-programs:
	$(WITH_CLANG) check-programs
check-clang: | $(if $(call asked,test-cluster),test-mpich)
	$(WITH_CLANG) TRIALS=100% check

# FUZZ="--seconds 600 file", or "--runs 1000000", or --help
fuzz: $(FUZZERS)
	@DGEMM_OOC_BUILD=$(BUILD) $(PYTHON) tests/fuzz/fuzz.py $(FUZZ)

# Random products that are killed and resumed, and other disturbances (tests/soak).  Takes long; SOAK="--seed 2", or --help.
KILLS    ?= 400
FLIPS    ?= 1000
FILES    ?= 200
CALLS    ?= 400
DISKS    ?= 100
MEMORY   ?= 100
VERDICTS ?= 200
soak: all $(FAULTY)
	@status=0; for campaign in "kills --count $(KILLS)" "flips --count $(FLIPS)" "files --count $(FILES)" "calls --count $(CALLS)" \
	  "disks --count $(DISKS)" "memory --count $(MEMORY)" "verdicts --count $(VERDICTS)"; do \
	  DGEMM_OOC_BUILD=$(BUILD) $(TESTPYTHON) tests/soak/soak.py $$campaign $(SOAK) || status=1; \
	done; exit $$status

# Line coverage of the tests, in a separate build.
coverage:
	@$(MAKE) --no-print-directory CUDA=0 BUILD=$(BUILD)-coverage CFLAGS="-O1 -g --coverage" check $(addprefix $(BUILD)-coverage/tests/,faults/dgemm_ooc bench/gemm_bench system/caller)
	@DGEMM_OOC_BUILD=$(BUILD)-coverage $(TESTPYTHON) -m pytest -q tests/system \
	  --ignore tests/system/test_build.py --ignore tests/system/test_bench.py
	@$(PYTHON) tests/coverage.py $(BUILD)-coverage

test-gpu: all $(GPUTESTS) $(FAULTY) $(GEMMBENCH) $(BUILD)/tests/bench/libcublas_int8.so
	@DGEMM_OOC_BUILD=$(BUILD) DGEMM_OOC_TEST_GPU=1 $(TESTPYTHON) -m pytest -q -m gpu tests

bench-programs: $(BENCHES)
# The CPU kernel compared with OpenBLAS, a few sizes; then whole runs, file to file; then users' jobs, and as matrices
# grow, unless BENCH="--only disk ..." asks for something else.
bench: all $(FAULTY) bench-programs $(BUILD)/tests/bench/bench_gemm_cpu $(BUILD)/tests/bench/bench_io \
       $(BUILD)/tests/bench/bench_chunks
	@env -u OPENBLAS_CORETYPE $(BUILD)/tests/bench/bench_gemm_cpu 3 1024
	@DGEMM_OOC_BUILD=$(BUILD) $(PYTHON) tests/bench/bench.py $(BENCH)
	$(if $(BENCH),,@DGEMM_OOC_BUILD=$(BUILD) $(PYTHON) tests/bench/regimes.py)
	$(if $(BENCH),,@DGEMM_OOC_BUILD=$(BUILD) $(PYTHON) tests/bench/grow.py measure -o $(BUILD)/bench)

include jobs/packages/packages.mk

# What is no compilation waits, too, for the answer to whether all is there.
$(PAGE) $(PAGES) $(MODULE) $(PKGCONFIG) $(SCRIPTS): | $(filter needs,$(CHANGED))

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

endif
