# Installing and packaging: part of the Makefile at the top, which includes it.
bindir         ?= $(PREFIX)/bin
datadir        ?= $(PREFIX)/share
mandir         ?= $(datadir)/man
docdir         ?= $(datadir)/doc/dgemm_ooc
completionsdir ?= $(datadir)/bash-completion/completions
pythondir      ?= $(PREFIX)/lib/python3/dist-packages
includedir     ?= $(PREFIX)/include
libdir         ?= $(PREFIX)/lib
jobsdir        := $(datadir)/dgemm_ooc/jobs
modulesdir     := $(datadir)/dgemm_ooc/modulefiles
# With build/ on PATH, man finds them there.
PAGES          := $(patsubst jobs/packages/man/%,$(BUILD)/man/man1/%,$(wildcard jobs/packages/man/*.1))
MODULE         := $(BUILD)/$(VERSION).lua
PKGCONFIG      := $(BUILD)/dgemm_ooc.pc
SOURCED        := jobs/common.sh
SCRIPTS        := $(patsubst %,$(BUILD)/%,$(filter-out $(SOURCED),$(wildcard jobs/*.sh)))
MODULES        := $(wildcard src/python/dgemm_ooc/*.py) src/python/dgemm_ooc/py.typed
RELEASE        := dgemm_ooc-$(VERSION)

.PHONY: install uninstall dist deb wheel

# $(call installed,DO) is $(call DO,mode,folder,files) for everything that is installed.
define installed
$(call $(1),755,$(bindir),$(PROGRAMS))
$(call $(1),644,$(mandir)/man1,$(PAGES))
$(call $(1),644,$(completionsdir),$(wildcard jobs/packages/completion/*))
$(call $(1),755,$(jobsdir),$(SCRIPTS))
$(call $(1),644,$(jobsdir),$(wildcard $(SOURCED)))
$(call $(1),644,$(jobsdir)/machines,$(wildcard jobs/machines/*.json))
$(call $(1),644,$(modulesdir)/dgemm_ooc,$(MODULE))
$(call $(1),644,$(pythondir)/dgemm_ooc,$(MODULES))
$(call $(1),644,$(includedir),src/library/dgemm_ooc.h)
$(call $(1),644,$(libdir),$(SHARED))
$(call $(1),644,$(libdir)/pkgconfig,$(PKGCONFIG))
$(call $(1),644,$(docdir),README.md LICENSE)
$(call $(1),644,$(docdir)/io,io/README.md)
$(call $(1),644,$(docdir)/kernels,kernels/README.md)
$(call $(1),644,$(docdir)/jobs,jobs/README.md)
$(call $(1),644,$(docdir)/python,src/python/README.md)
$(call $(1),644,$(docdir)/library,$(wildcard src/library/examples/*))
endef
put  = $(if $(3),install -D -m $(1) -t "$(DESTDIR)$(2)" $(3))
drop = @cd "$(DESTDIR)$(2)" 2>/dev/null && rm -f $(notdir $(3)) || true

install: all $(PAGES) $(MODULE) $(PKGCONFIG) $(SCRIPTS)
	$(call installed,put)
	@ln -sf $(SONAME) "$(DESTDIR)$(libdir)/libdgemm_ooc.so"
	@test "$$(id -u)" != 0 || chown -R --reference=$(BUILD) $(BUILD) # as they were before sudo

# Shared folders are kept, and so are the project's own if they contain other files.
uninstall:
	$(call installed,drop)
	rm -rf "$(DESTDIR)$(pythondir)/dgemm_ooc/__pycache__" "$(DESTDIR)$(libdir)/libdgemm_ooc.so"
	-for d in "$(jobsdir)/machines" "$(jobsdir)" "$(modulesdir)/dgemm_ooc" "$(modulesdir)" "$(datadir)/dgemm_ooc" \
	  "$(pythondir)/dgemm_ooc" "$(docdir)/io" "$(docdir)/kernels" "$(docdir)/jobs" "$(docdir)/python" "$(docdir)/library" "$(libdir)/pkgconfig" "$(docdir)"; do rm -df "$(DESTDIR)$$d"; done

# The manual, which can be read before it is installed.
all: $(PAGES)

# Kernels that --algo takes by name or number, in kernels/kernel.h.
LADDER := $(shell sed -n -e '/CPU, cpu/q' -e 's/^ *KERNEL([A-Z0-9_]*, *\([a-z0-9_]*\)).*/\\\\fB\1\\\\fR/p' kernels/kernel.h | paste -sd, | sed 's/,/, /g')

# These are regenerated each time, since the folders may have changed.
FILL = @rm -f $@; sed -e 's|@VERSION@|$(VERSION)|' -e 's|@BINDIR@|$(bindir)|' -e 's|@MANDIR@|$(mandir)|' \
            -e 's|@JOBSDIR@|$(jobsdir)|' -e 's|@PYTHONDIR@|$(pythondir)|' -e 's|@LIBDIR@|$(libdir)|' -e 's|@INCLUDEDIR@|$(includedir)|' -e 's|@DOCDIR@|$(docdir)|' -e 's|@KERNELS@|$(LADDER)|' $< >$@
$(PAGES): $(BUILD)/man/man1/%: jobs/packages/man/% FORCE
	@mkdir -p $(@D)
	$(FILL)
$(MODULE): jobs/packages/modulefile.lua FORCE
	$(FILL)
$(PKGCONFIG): src/library/dgemm_ooc.pc FORCE
	$(FILL)
$(SCRIPTS): $(BUILD)/jobs/%.sh: jobs/%.sh FORCE
	@mkdir -p $(@D)
	@rm -f $@; sed -e 's|^DGEMM_OOC=.*|DGEMM_OOC="$(datadir)/dgemm_ooc"|' -e 's|^PROGRAM=.*|PROGRAM="$(bindir)/dgemm_ooc"|' $< >$@

dist:
	@test -e .git || { echo "make dist: only in a git repository, of whose HEAD it makes the tarball" >&2; exit 1; }
	git archive --prefix=$(RELEASE)/ -o $(DIST)/$(RELEASE).tar.gz HEAD

# The Python package alone, which finds the program in PATH.  Built in a copy, since setuptools writes beside its sources.
WHEELPYTHON ?= $(call python_with,setuptools$(,) wheel$(,) pip,$(PYTHON))
wheel: | $(filter needs-wheel,$(NEEDS))
	@rm -rf $(BUILD)/python
	@mkdir -p $(BUILD)/python/dgemm_ooc
	@cp src/python/pyproject.toml src/python/README.md LICENSE $(BUILD)/python
	@cp $(MODULES) $(BUILD)/python/dgemm_ooc
	@$(WHEELPYTHON) -m pip wheel -q --no-index --no-build-isolation --no-deps -w $(BUILD)/dist $(BUILD)/python
	@ls $(BUILD)/dist/*-$(VERSION)-*.whl

# A Debian package of HEAD, built in the unpacked tarball, where debian/ is at the top.
DEB := $(BUILD)/deb
deb:
	@rm -rf $(DEB)
	@mkdir -p $(DEB)
	@$(MAKE) --no-print-directory dist DIST=$(DEB)
	@tar -C $(DEB) -xzf $(DEB)/$(RELEASE).tar.gz
	@mv $(DEB)/$(RELEASE)/jobs/packages/debian $(DEB)/$(RELEASE)
	@cd $(DEB)/$(RELEASE)/debian && \
	  sed -i -e 's|@VERSION@|$(VERSION)|' -e "s|@DATE@|$$(git -C $(CURDIR) log -1 --format=%aD)|" changelog && \
	  sed -e '1,4d' -e 's|^$$|.|' -e 's|^| |' ../LICENSE >>copyright
	cd $(DEB)/$(RELEASE) && env -u MAKEFLAGS CUDA=$(CUDA) CUDA_HOME=$(CUDA_HOME) CUDA_ARCH='$(CUDA_ARCH)' \
	  MPI_HOME=$(MPI_HOME) HDF5_HOME=$(HDF5_HOME) HDF5=$(HDF5) dpkg-buildpackage -b -us -uc
	@ls $(DEB)/*.deb
