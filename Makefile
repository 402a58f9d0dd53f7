# hasp: build, test, install. `make help` lists the targets.
#
# Objects of each flavour live in build/<flavour>/, so switching costs nothing:
#   release  what users get          check  warnings are errors, slow checks on
#   asan     by clang: ASan + UBSan  tsan   ThreadSanitizer
#   coverage gcov                    fuzz   as asan, with comparisons traced
# CFLAGS and LDFLAGS belong to whoever builds; ours are in HASP_*.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

VERSION := 0.1.0
# The day of this version, in manual pages and archives.
RELEASED := 2026-11-24
FLAVOUR ?= release
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
B := build/$(FLAVOUR)

CFLAGS ?= -O2 -g
PKGS := raft libuv lmdb libssl libcrypto inih smartcols jansson libsystemd
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)

HASP_CFLAGS := -std=c11 -D_GNU_SOURCE -iquote . \
    -DHASP_VERSION='"$(VERSION)"' -DHASP_RELEASED='"$(RELEASED)"' -fno-strict-aliasing -fvisibility=hidden \
    -fPIC -fstack-protector-strong -MMD -MP -pthread \
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
    -Wpointer-arith -Wvla -Wformat=2 -Wundef
HASP_LDFLAGS := -pthread -Wl,-z,relro,-z,now
LIBS := -lraft -luv -llmdb -lxxhash -lmicrohttpd -ljansson -lssl -lcrypto

# What the compiler has of these; `make hardening` prints it, and
# tests/cluster/test_hardening.py looks for it in the programs. Checked calls
# need an optimizer, and sanitizers have their own.
accepts = $(shell echo 'int main(void) { return 0; }' | \
    $(CC) -O2 -Werror $(1) -x c -o /dev/null - 2>/dev/null && echo '$(1)')
HARDENING :=
ifneq ($(filter release check,$(FLAVOUR)),)
HARDENING := $(call accepts,-fstack-clash-protection) \
    $(call accepts,-fcf-protection=full) \
    $(call accepts,-mbranch-protection=standard)
ifneq ($(filter-out -O0,$(filter -O%,$(CFLAGS))),)
ifeq ($(findstring _FORTIFY_SOURCE,$(CFLAGS)),)
HARDENING += $(call accepts,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif
endif
HASP_CFLAGS += $(HARDENING)
endif
.PHONY: hardening
hardening:
	@echo $(HARDENING)

# What runs for seconds, or whose reports need lines and no variables, is built
# faster with less.
ifneq ($(filter check asan tsan coverage fuzz,$(FLAVOUR)),)
HASP_CFLAGS += -DHASP_CHECK_SLOW -Werror
endif
# The version after the next release, as far as feature levels go
# (lockfsm/feature.h): it can also act as today's.
ifneq ($(filter check asan coverage fuzz,$(FLAVOUR)),)
HASP_CFLAGS += -DHASP_FEATURE_LEVEL_EXTRA=1
endif
# What is read before it is set is the same nonsense each time: a CHECK sees it.
ifeq ($(FLAVOUR),check)
HASP_CFLAGS += -ftrivial-auto-var-init=pattern
endif
ifeq ($(DEVELOPER),1)
HASP_CFLAGS += -Werror
endif
# By clang, and with the counters of branches that libFuzzer steers by, so that
# one build serves unit tests, simulator and fuzz targets. The flavour "fuzz" has
# comparisons traced as well, which finds magic numbers and takes twice as long:
# for hours of fuzzing. NULL + 0, which an empty buffer has at its start, is
# defined from C2y on.
ifneq ($(filter asan fuzz,$(FLAVOUR)),)
CC := clang
CFLAGS := -O1 -g1
SANITIZED := -fsanitize=address,undefined,float-cast-overflow \
    -fno-sanitize=pointer-overflow
COUNTED := -fsanitize-coverage=inline-8bit-counters,pc-table
ifeq ($(FLAVOUR),fuzz)
COUNTED := -fsanitize=fuzzer-no-link
endif
# The sources ask by gcc's macro.
HASP_CFLAGS += $(SANITIZED) $(COUNTED) -fno-sanitize-recover=all \
    -U__SANITIZE_ADDRESS__ -D__SANITIZE_ADDRESS__=1 \
    -fno-omit-frame-pointer -ftrivial-auto-var-init=pattern
# Links in half the time.
HASP_LDFLAGS += -fsanitize=address,undefined $(call accepts,-fuse-ld=lld)
endif
ifeq ($(FLAVOUR),tsan)
CFLAGS := -O1 -g1
HASP_CFLAGS += -fsanitize=thread
# Each program takes syscall() from tests/tsan, which says why.
HASP_LDFLAGS += -fsanitize=thread -Wl,--undefined=syscall
endif
ifeq ($(FLAVOUR),coverage)
CFLAGS := -O0 -g
HASP_CFLAGS += --coverage
HASP_LDFLAGS += --coverage
endif

# In an order that no locale changes: objects are linked as they stand here, and
# two builds of one source are the same bytes (make test-deb T=same).
files = $(sort $(wildcard $(1)))
FOLDERS := base lockfsm $(call files,lockfsm/*/) lease storage raft net client \
    core $(call files,core/*/) http node
SRC := $(foreach f,$(FOLDERS:/=),$(call files,$(f)/*.c))
OBJ := $(SRC:%.c=$(B)/%.o)
ifeq ($(FLAVOUR),tsan)
OBJ += $(B)/tests/tsan/syscall.o
endif
LIB := $(B)/libhasp-all.a

HASPD_OBJ := $(patsubst %.c,$(B)/%.o,$(call files,cmd/haspd/*.c))
HASP_OBJ := $(patsubst %.c,$(B)/%.o,$(call files,cmd/hasp/*.c cmd/hasp/*/*.c))
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
SIM_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/sim/*.c) \
    tests/unit/lockfsm_delta.c tests/unit/drawn_requests.c \
    cmd/hasp/agent/ties.c)
BENCH_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/bench/*.c))
PROPERTY_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/property/*.c) \
    tests/unit/lockfsm_delta.c)

# The client library: what client/ needs and nothing else. SOVERSION changes when
# a program that was built with an older one would break.
SOVERSION := 0
LIBHASP_OBJ := $(patsubst %.c,$(B)/%.o,$(call files,client/*.c))
LIBHASP_PARTS := $(patsubst %.c,$(B)/%.o,$(call files,net/resp*.c net/tls*.c base/*.c) \
    lease/lease.c)
LIBHASP_SO := $(B)/libhasp.so.$(VERSION)
# A node for other programs: all but the client, which has a library of its own.
LIBNODE_OBJ := $(patsubst %.c,$(B)/%.o,$(call files,node/*.c))
LIBNODE_PARTS := $(filter-out $(LIBNODE_OBJ) $(B)/client/%,$(OBJ))
EXAMPLES := $(patsubst %.c,$(B)/%,$(wildcard examples/*.c))
CLIENT_TESTS := $(patsubst tests/client/%.c,$(B)/client-tests/%,\
    $(wildcard tests/client/*.c))

.PHONY: all
all: $(B)/haspd $(B)/hasp lib $(B)/libhaspnode.a ## the daemon, the tool, the libraries (default)

.PHONY: lib examples client-tests
lib: $(B)/libhasp.a $(LIBHASP_SO) ## the client library
examples: $(EXAMPLES) ## the programs in examples/
PRELOADED := $(patsubst %,$(B)/%.so,slow_disk power_disk odd_clock no_memory \
    old_kernel crash)
client-tests: $(CLIENT_TESTS) $(PRELOADED)

# --- compiling ---------------------------------------------------------------

# An object of a build for tests is made again when its flags change. A user's is
# not: CFLAGS may be given to "make" alone, and not to "make install".
FLAGS :=
ifneq ($(FLAVOUR),release)
FLAGS := $(B)/flags
FLAGS_NOW := $(CC) $(HASP_CFLAGS) $(PKG_CFLAGS) $(CFLAGS)
ifneq ($(file <$(FLAGS)),$(FLAGS_NOW))
$(shell mkdir -p $(B))
$(file >$(FLAGS),$(FLAGS_NOW))
endif
endif

$(B)/%.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	$(CC) $(HASP_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) -c -o $@ $<

# Texts that stand in the programs (base/embed.h).
$(B)/http/page.o: http/index.html
$(B)/cmd/hasp/manual.o: cmd/hasp/notes.txt
$(B)/cmd/hasp/completion.o: $(wildcard cmd/hasp/shell/*)
$(B)/cmd/haspd/manual.o: cmd/haspd/help.txt cmd/haspd/settings.txt

$(LIB): $(OBJ)
	rm -f $@
	ar rcs $@ $^

$(B)/haspd: $(HASPD_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) \
	    -linih -lsystemd

$(B)/hasp: $(HASP_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) \
	    -lsmartcols -ljansson

# All are made from the programs' own tables of subcommands and settings.
MAN := build/man/hasp.1
MAN_RUN := build/man/hasp-run.1
MAN_CODES := build/man/hasp-exit-codes.7
MAN_DAEMON := build/man/haspd.conf.5 build/man/haspd.8
COMPLETIONS := $(addprefix build/man/hasp.,bash zsh fish)
$(MAN): $(B)/hasp
	@mkdir -p $(@D)
	$(B)/hasp help --man > $@
$(MAN_RUN): $(B)/hasp
	@mkdir -p $(@D)
	$(B)/hasp help --man run > $@
$(MAN_CODES): $(B)/hasp
	@mkdir -p $(@D)
	$(B)/hasp help --man exit-codes > $@
$(MAN_DAEMON): $(B)/haspd
	@mkdir -p $(@D)
	$(B)/haspd --man $(subst .,,$(suffix $@)) > $@
$(COMPLETIONS): build/man/hasp.%: $(B)/hasp
	@mkdir -p $(@D)
	$(B)/hasp completion $* > $@

.PHONY: man
man: $(MAN) $(MAN_RUN) $(MAN_CODES) $(MAN_DAEMON) $(COMPLETIONS) ## the manual pages, completions for shells

# Of each library one object of which only the public functions can be seen, so
# that a program that links the archives keeps its own names, and may link both.
# The node's has base's public functions, which are for the client, as its own.
$(B)/libhasp.o: $(LIBHASP_OBJ) $(LIBHASP_PARTS)
	rm -f $(B)/libhasp-parts.a
	ar rcs $(B)/libhasp-parts.a $(LIBHASP_PARTS)
	$(LD) -r -o $@ $(LIBHASP_OBJ) $(B)/libhasp-parts.a
	objcopy --localize-hidden $@

$(B)/libhaspnode.o: $(LIBNODE_OBJ) $(LIBNODE_PARTS)
	rm -f $(B)/libhaspnode-parts.a
	ar rcs $(B)/libhaspnode-parts.a $(LIBNODE_PARTS)
	$(LD) -r -o $@ $(LIBNODE_OBJ) $(B)/libhaspnode-parts.a
	objcopy --wildcard --keep-global-symbol='hasp_node_*' $@

$(B)/libhasp.a $(B)/libhaspnode.a: $(B)/%.a: $(B)/%.o
	rm -f $@
	ar rcs $@ $^

$(LIBHASP_SO): $(B)/libhasp.o
	$(CC) -shared -Wl,-soname,libhasp.so.$(SOVERSION) -Wl,--as-needed \
	    $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ -luv -lssl -lcrypto
	ln -sf $(@F) $(B)/libhasp.so.$(SOVERSION)
	ln -sf $(@F) $(B)/libhasp.so

# As a user builds them: the public headers, the library, libuv where an example
# names it; the one that is a node, what a node needs.
EXAMPLE_LIBS := -lhasp -luv
$(B)/examples/embedded: EXAMPLE_LIBS := -lhaspnode $(LIBS)
$(B)/examples/embedded: $(B)/libhaspnode.a
$(B)/examples/%: examples/%.c $(wildcard include/hasp/*.h) $(LIBHASP_SO)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Iinclude $(HASP_LDFLAGS) \
	    $(filter -Werror -fsanitize% --coverage,$(HASP_CFLAGS)) \
	    $(CFLAGS) -o $@ $< -L$(B) -Wl,-rpath,'$$ORIGIN/..' $(EXAMPLE_LIBS)

$(B)/client-tests/%: tests/client/%.c $(wildcard tests/client/*.h) \
    $(wildcard include/hasp/*.h) $(LIBHASP_SO)
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Iinclude $(HASP_LDFLAGS) \
	    $(filter -Werror -fsanitize% --coverage,$(HASP_CFLAGS)) \
	    $(CFLAGS) -o $@ $< -L$(B) -Wl,-rpath,'$$ORIGIN/..' -lhasp -luv \
	    $(CLIENT_TEST_LIBS)
$(B)/client-tests/conform: CLIENT_TEST_LIBS := -ljansson

# For LD_PRELOAD: never with a sanitizer of its own.
$(PRELOADED): $(B)/%.so: tests/cluster/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -fPIC -shared -o $@ $< -ldl

# A test links the worlds whose headers it includes, or the simulator's disks.
SIM_DISK_OBJ := $(patsubst %,$(B)/tests/sim/sim_%.o,files tree tasks)
worlds = $(patsubst "tests/unit/%.h",$(B)/tests/unit/%.o,$(sort \
    $(shell grep -oh '"tests/unit/[a-z_]*\.h"' tests/unit/$(1).c))) \
    $(if $(shell grep -l '"tests/sim/' tests/unit/$(1).c),$(SIM_DISK_OBJ)) \
    $(if $(shell grep -l '"cmd/hasp/agent/ties' tests/unit/$(1).c), \
        $(B)/cmd/hasp/agent/ties.o)
.SECONDEXPANSION:
$(B)/unit/%: $(B)/tests/unit/%.o $$(call worlds,$$*) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

FUZZ_WORLDS := $(patsubst %,$(B)/tests/unit/%.o,lockfsm_delta core_world \
    drawn_cluster drawn_http drawn_requests)
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(FUZZ_WORLDS) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(HASP_LDFLAGS) -fsanitize=fuzzer $(CFLAGS) $(LDFLAGS) -o $@ $^ \
	    $(LIBS) -lcmocka

$(B)/sim: $(SIM_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/bench: $(BENCH_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

COSTS_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/bench/costs/*.c))
$(B)/costs: $(COSTS_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/null_server: $(B)/tests/bench/peers/null_server.o $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/property: $(PROPERTY_OBJ) $(LIB)
	$(CC) $(HASP_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

-include $(shell find $(B) -name '*.d' 2>/dev/null)

.PRECIOUS: $(B)/%.o $(B)/tests/unit/%.o $(B)/tests/fuzz/%.o

# Packages of the clients in other languages, of what stands in clients/ and
# nothing else: no network. SITE is the host that publishes them: of their
# addresses, of Go's module, and, backwards, Java's group.
SITE ?= hasp.example
GROUP = $(shell echo '$(SITE)' | tr . '\n' | tac | paste -sd.)
CLIENTS_TO ?= build/clients
.PHONY: clients client-go client-java client-node client-python
clients: client-go client-java client-node client-python ## packages of the clients, in build/clients (SITE=)
client-go client-java client-node client-python: client-%:
	@mkdir -p $(CLIENTS_TO)
	@rm -rf $(CLIENTS_TO)/$*
	@cp -R clients/$* $(CLIENTS_TO)/$*
	@cp LICENSE $(CLIENTS_TO)/$*
	@find $(CLIENTS_TO)/$* -type f -exec sed -i \
	    -e 's/hasp\.example/$(SITE)/g' -e 's/example\.hasp/$(GROUP)/g' {} +
	@$(pack-$*)
	@rm -rf $(CLIENTS_TO)/$*
in_jar = jar --create --date $(RELEASED)T00:00:00Z \
    --file ../hasp-$(VERSION)$(1).jar -C $(2) . LICENSE
pack-java = cd $(CLIENTS_TO)/java && cp pom.xml ../hasp-$(VERSION).pom && \
    javac --release 17 -d classes $$(find src/main -name '*.java') && \
    javadoc -quiet -notimestamp -Xdoclint:all,-missing -Werror -public \
        -d javadoc $$(find src/main -name '*.java') && \
    $(call in_jar,,classes) && $(call in_jar,-sources,src/main/java) && \
    $(call in_jar,-javadoc,javadoc)
pack-python = cd $(CLIENTS_TO)/python && /usr/bin/python3 -m pip -q wheel \
    --no-index --no-build-isolation --no-deps -w .. . && /usr/bin/python3 -c \
    'import setuptools.build_meta as b; b.build_sdist("..")' > /dev/null
pack-node = cd $(CLIENTS_TO)/node && npm pack --silent --offline \
    --pack-destination .. > /dev/null
# As a proxy of Go modules has it, for GOPROXY=file://.../go-proxy. The package's
# name is hasp, whatever its path.
go_module = $(SITE)/hasp
go_at = go-proxy/$(go_module)/@v/v$(VERSION)
pack-go = cd $(CLIENTS_TO) && rm -rf go-proxy && mkdir -p $(dir $(go_at)) && \
    sed -i 's|^module hasp$$|module $(go_module)|' go/go.mod && \
    find go -name '*.go' -exec sed -i 's|"hasp"$$|"$(go_module)"|' {} + && \
    cp go/go.mod $(go_at).mod && \
    printf '{"Version":"v%s","Time":"%sT00:00:00Z"}' $(VERSION) $(RELEASED) \
        > $(go_at).info && printf 'v%s\n' $(VERSION) > $(dir $(go_at))list && \
    /usr/bin/python3 -c 'import os, sys, zipfile; \
        z = zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED); \
        [z.writestr(zipfile.ZipInfo(os.path.join(sys.argv[2], \
            os.path.relpath(path, "go"))), open(path, "rb").read()) \
         for path in sorted(os.path.join(folder, name) \
            for folder, _, names in os.walk("go") for name in names)]' \
        $(go_at).zip $(go_module)@v$(VERSION)

# --- packages ----------------------------------------------------------------

# All of the newest commit, into build/packages; tools/package.sh says what the
# variables for keys are.
.PHONY: deb sbom repo release
deb: ## the Debian packages, in build/packages
sbom: ## what the packages link, as SPDX, in build/packages
repo: ## a signed repository for apt, in build/packages (HASP_GPG_KEY=)
release: ## tarball, packages, SBOM, sums and signature (HASP_MINISIGN=)
deb sbom repo release:
	@tools/package.sh $@
.PHONY: test-deb
test-deb: ## packages in clean roots, as root (T=build lint piuparts install upgrade repo release same)
	@tools/test_deb.py $(T)
.PHONY: image test-image test-kubernetes
image: ## a container image of the packages, in build/packages
	@tools/image.sh
test-image: ## it under runc, as root (T=inspect alone owner cluster podman)
	@tools/test_image.py $(T)
test-kubernetes: $(B)/haspd $(B)/hasp ## the manifests; a StatefulSet played, as root
	@tools/kubernetes.py test
	@PODS_MIN_READY_S=5 PODS_SILENT_S=60 HASPD=$(B)/haspd HASP=$(B)/hasp \
	    /usr/bin/python3 -m pytest -q -s -p no:cacheprovider \
	    tests/cluster/test_pods.py

# --- running -----------------------------------------------------------------

.PHONY: test
test: ready ## everything that CI runs; ends with "N passed, N failed"
	@tools/test.sh

.PHONY: demo
demo: ready-to-build ## three real nodes through their paces, in words with times
	@$(MAKE) -s -j$$(nproc) all
	@tools/demo.sh

.PHONY: ready ready-to-build
ready:
	@tools/deps.sh check 2>/dev/null || tools/deps.sh
ready-to-build:
	@tools/deps.sh check build 2>/dev/null || tools/deps.sh build

.PHONY: unit
UNIT_CHOSEN = $(if $(T),$(foreach u,$(UNIT),$(if $(findstring $(T),$(u)),$(u))),\
    $(UNIT))
unit: $(UNIT_CHOSEN) ## unit tests (T=part of a name)
	@tools/run-unit.sh $^

.PHONY: check
check: ## warnings are errors, slow checks on: unit tests, simulator, lint
	$(MAKE) FLAVOUR=check all unit
	$(MAKE) FLAVOUR=check sim SEEDS=80
	$(MAKE) lint

SEED ?= 1
SEEDS ?= 200
SIM_ARGS ?=
.PHONY: sim
sim: $(B)/sim ## the simulator (SEED=, SEEDS=, SIM_ARGS=)
	$(B)/sim --seed $(SEED) --seeds $(SEEDS) --jobs $$(nproc) $(SIM_ARGS)

# The same with libraft's assertions, where its source can be had.
.PHONY: sim-asserts
sim-asserts: $(B)/sim
	@SIM_OBJECTS='$(SIM_OBJ)' tools/raft-asserts.sh $(B) --seed $(SEED) --seeds $(SEEDS) \
	    --jobs $$(nproc) $(SIM_ARGS)

HOURS ?= 1
.PHONY: sim-long
sim-long: $(B)/sim ## fresh seeds for HOURS=; coverage, and a page for each failure
	tools/sim_long.py --sim $(B)/sim --hours $(HOURS) --out $(B)/sim-long

PROPERTY_SECONDS ?= 600
.PHONY: property property-short
property: $(B)/property ## the state machine against a model, for long (SEED=)
	tests/property/run.py --driver $< --seed $(SEED) \
	    --seconds $(PROPERTY_SECONDS)
property-short: $(B)/property ## the same with a few fixed seeds
	tests/property/run.py --driver $< --seed 1 --count 400 --pairs 2

# docs/model: the rules of time and of membership, by spin.
.PHONY: model model-short
model: ready ## the models of docs/model, as far as their README says
	@tools/model.sh full
model-short:
	@tools/model.sh quick

# The next version, for tests of upgrades.
.PHONY: next-version
next-version:
	$(MAKE) FLAVOUR=check build/check/haspd

.PHONY: cluster
cluster: $(B)/haspd $(B)/hasp $(B)/sim $(B)/bench $(B)/null_server lib examples client-tests next-version ## tests on real processes (T=part of a name)
	@HASPD=$(B)/haspd HASP=$(B)/hasp HASP_BUILD=$(B) tools/run-cluster.sh \
	    $(if $(T),-k '$(T)') tests/conformance clients/python/tests \
	    tests/cluster

.PHONY: test-long
test-long: $(B)/haspd $(B)/hasp client-tests ## tests on real processes that take minutes (T=)
	@HASPD=$(B)/haspd HASP=$(B)/hasp HASP_BUILD=$(B) \
	    tools/run-cluster.sh $(if $(T),-k '$(T)') \
	    tests/cluster/agent_long.py tests/cluster/flipped_bits_long.py \
	    tests/cluster/node_cron_long.py

# CI runs the unit tests with ASan. These test what is compiled out there: the
# pool, in whose place ASan sees each piece, and limits of the address space.
UNSANITIZED := fsm lockfsm table
.PHONY: unit-objects unit-unsanitized
unit-objects: bench-runs $(UNIT:$(B)/unit/%=$(B)/tests/unit/%.o) # For the warnings.
unit-unsanitized: $(UNSANITIZED:%=$(B)/unit/test_%)
	@tools/run-unit.sh $^

# Those that have threads; of the others ThreadSanitizer tells nothing.
THREADED := client fence_file http node peers peers_guests rights snapshot stream \
    stream_threads table tie wal
.PHONY: unit-threads
unit-threads: $(THREADED:%=$(B)/unit/test_%) ## unit tests of what has threads
	@tools/run-unit.sh $^

# A daemon of which the sanitizer reports anything ends at once.
.PHONY: cluster-threads
cluster-threads: $(B)/haspd ## leaders, followers, snapshots and restarts of this flavour
	$(MAKE) FLAVOUR=release all
	@TSAN_OPTIONS=halt_on_error=1 HASPD=$(B)/haspd HASP=build/release/hasp \
	    HASP_BUILD=build/release tools/run-cluster.sh \
	    -k "failover or saved_under_load" tests/cluster/test_failover.py \
	    tests/cluster/test_snapshot.py

.PHONY: asan tsan
asan: ## unit tests and simulator under ASan and UBSan
	$(MAKE) FLAVOUR=asan all unit
	$(MAKE) FLAVOUR=asan sim SEEDS=20
# The simulator has one thread: no race can show there.
tsan: ## unit tests and real nodes under TSan
	$(MAKE) FLAVOUR=tsan all unit
	$(MAKE) FLAVOUR=tsan cluster-threads

FUZZ_SECONDS ?= 30
.PHONY: fuzz
fuzz: ## each fuzz target for FUZZ_SECONDS
	$(MAKE) FLAVOUR=fuzz fuzz-build
	@tools/run-fuzz.sh build/fuzz $(FUZZ_SECONDS)
.PHONY: fuzz-build
fuzz-build: $(FUZZ)

.PHONY: coverage
coverage: ## line and branch coverage of unit tests and simulator
	$(MAKE) FLAVOUR=coverage unit
	$(MAKE) FLAVOUR=coverage sim SEEDS=20
	@tools/coverage.sh build/coverage

.PHONY: bench
bench: all $(B)/bench $(B)/slow_disk.so ## acquire+release cycles on three nodes
	@tools/bench.sh $(B)
	@tools/failover.py $(B) 20 | tail -1
	@tools/minority.py $(B)

.PHONY: bystander
bystander: all ## each command and HTTP route floods a cluster; does a bystander notice? half an hour (T="PING ..." some)
	@HASPD=$(B)/haspd tools/bystander.py $(T)
.PHONY: bench-costs
SIZES ?= 1000,10000,100000
bench-costs: $(B)/costs ## what an operation costs as the state grows (SIZES=); no entry above 1 ms
	$(B)/costs $(SIZES)
	$(B)/costs limits

# At a size that shows nothing: the benchmark builds and runs.
.PHONY: bench-runs
bench-runs: $(B)/costs
	@$(B)/costs 100 > /dev/null

.PHONY: bench-death
bench-death: all $(B)/client-tests/tied ## kill -9 of a holder to the next grant, beside etcd, ZooKeeper, Redisson's protocol (ROUNDS=)
	@/usr/bin/python3 tests/cluster/bench_death.py --install
	@HASP_BUILD=$(abspath $(B)) HASPD=$(abspath $(B))/haspd \
	    /usr/bin/python3 tests/cluster/bench_death.py

.PHONY: sizing
sizing: all ## memory, disk, network and CPU of each item and cycle, start times (COUNT=, STATES=)
	@HASPD=$(abspath $(B))/haspd /usr/bin/python3 tests/cluster/bench_sizing.py \
	    --count $(or $(COUNT),50000) --states $(or $(STATES),10,100)

.PHONY: bench-peers
bench-peers: all $(B)/bench $(B)/null_server ## hasp, Redis, etcd, ZooKeeper side by side
	@tools/bench_peers.py $(B) --install
	@tools/bench_peers.py $(B) --write

.PHONY: paused-holders
paused-holders: all ## a holder paused past its lease 1,000 times, on hasp, Redis and etcd, with and without a gate
	@/usr/bin/python3 tools/paused_holders.py $(B) --install
	@/usr/bin/python3 tools/paused_holders.py $(B)

.PHONY: goals
goals: all $(B)/bench $(B)/null_server ## what docs/performance.md promises, measured: six minutes
	@tools/goals.py $(B) --install
	@tools/goals.py $(B) --write

FORMATTED = $(shell git ls-files '*.c' '*.h')
FORMATTER := 14
.PHONY: format lint lint-built lint-format lint-layers lint-outcomes \
    lint-circles lint-draws lint-metrics lint-parts lint-tidy lint-mutants lint-words
format: ## clang-format in place
	clang-format -i $(FORMATTED)
lint: lint-format lint-layers lint-outcomes lint-circles lint-draws lint-parts \
    lint-metrics lint-tidy lint-mutants lint-words ## format, layering, lengths, words
lint-format:
	@if clang-format --version | grep -q 'version $(FORMATTER)\.'; then \
	    clang-format --dry-run -Werror $(FORMATTED); \
	else \
	    echo 'lint: format skipped: another clang-format than $(FORMATTER),' \
	        'that of Debian 12, has other rules'; \
	fi
# These two read the objects of all programs.
BUILT := build/check
lint-built:
	@$(MAKE) --no-print-directory -s FLAVOUR=$(notdir $(BUILT)) all
lint-layers: lint-built
	tools/layers.py $(BUILT)
lint-outcomes:
	tools/outcomes.py
lint-circles: lint-built
	tools/circles.py $(BUILT)
lint-draws:
	tools/draws.py
lint-metrics:
	tools/metrics.py
lint-parts:
	tools/parts.py
lint-tidy:
	tools/tidy.py
lint-mutants:
	tools/mutants.py --applies
lint-words:
	tools/words.py

.PHONY: mutants
mutants: ## plants the bugs of tests/mutants and sees each caught (T=part of a name)
	@tools/mutants.py $(T)

# --- installing --------------------------------------------------------------

install_pc = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
    -e 's|@VERSION@|$(VERSION)|' packaging/$(1).pc.in \
    > $(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc

UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system
install_unit = sed 's|/usr/local|$(PREFIX)|g' packaging/$(1) > $(UNITS)/$(1)

.PHONY: install
install: all man ## into $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin
	install -m 0755 $(B)/hasp $(DESTDIR)$(PREFIX)/bin/hasp
	install -m 0755 $(B)/haspd $(DESTDIR)$(PREFIX)/sbin/haspd
	install -D -m 0644 $(MAN) $(DESTDIR)$(PREFIX)/share/man/man1/hasp.1
	install -D -m 0644 $(MAN_RUN) \
	    $(DESTDIR)$(PREFIX)/share/man/man1/hasp-run.1
	install -D -m 0644 $(MAN_CODES) \
	    $(DESTDIR)$(PREFIX)/share/man/man7/hasp-exit-codes.7
	install -D -m 0644 build/man/haspd.conf.5 \
	    $(DESTDIR)$(PREFIX)/share/man/man5/haspd.conf.5
	install -D -m 0644 build/man/haspd.8 \
	    $(DESTDIR)$(PREFIX)/share/man/man8/haspd.8
	install -D -m 0644 build/man/hasp.bash \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/hasp
	install -D -m 0644 build/man/hasp.zsh \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_hasp
	install -D -m 0644 build/man/hasp.fish \
	    $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/hasp.fish
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system \
	    $(DESTDIR)$(PREFIX)/share/doc/hasp
	$(foreach unit,haspd.service hasp-run@.service hasp-once@.service \
	    hasp-once@.timer hasp-agent.service hasp-agent.socket, \
	    $(call install_unit,$(unit)) &&) \
	sed -f packaging/instances.sed $(UNITS)/haspd.service \
	    > $(UNITS)/haspd@.service
	install -D -m 0755 docs/recipes/once.sh \
	    $(DESTDIR)$(PREFIX)/libexec/hasp/once
	install -D -m 0755 packaging/backup.sh \
	    $(DESTDIR)$(PREFIX)/libexec/hasp/backup
	$(foreach unit,haspd-backup.service haspd-backup.timer \
	    haspd-drill.service haspd-drill.timer, \
	    $(call install_unit,$(unit)) &&) true
	install -m 0644 packaging/haspd.conf.example packaging/alerts.yml \
	    packaging/dashboard.json $(DESTDIR)$(PREFIX)/share/doc/hasp/
	$(MAKE) install-lib
	install -m 0644 include/hasp/node.h $(DESTDIR)$(PREFIX)/include/hasp/
	install -m 0644 $(B)/libhaspnode.a $(DESTDIR)$(LIBDIR)/
	$(call install_pc,haspnode)

.PHONY: install-lib
install-lib: lib ## the client library alone
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig \
	    $(DESTDIR)$(PREFIX)/include/hasp $(DESTDIR)$(PREFIX)/share/man/man3
	install -m 0644 include/hasp/hasp.h include/hasp/hasp_uv.h \
	    $(DESTDIR)$(PREFIX)/include/hasp/
	install -m 0644 $(B)/libhasp.a $(DESTDIR)$(LIBDIR)/
	install -m 0755 $(LIBHASP_SO) $(DESTDIR)$(LIBDIR)/
	ln -sf libhasp.so.$(VERSION) \
	    $(DESTDIR)$(LIBDIR)/libhasp.so.$(SOVERSION)
	ln -sf libhasp.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libhasp.so
	$(call install_pc,hasp)
	install -m 0644 docs/man/hasp.3 $(DESTDIR)$(PREFIX)/share/man/man3/
	@$(if $(DESTDIR),,$(after_lib))
# A program finds a new library only once ldconfig has noted it, which takes root
# and a folder that the loader searches.
after_lib = if [ "$$(id -u)" = 0 ]; then ldconfig; fi; \
    ldconfig -p 2>/dev/null | grep -qF ' => $(LIBDIR)/libhasp.so.' || \
    echo 'libhasp: programs that link it do not find it yet. Run ldconfig as' \
        'root, if /etc/ld.so.conf has $(LIBDIR); else link with' \
        '-Wl,-rpath,$(LIBDIR) or set LD_LIBRARY_PATH=$(LIBDIR)'

.PHONY: clean
clean: ## remove build/
	rm -rf build

.PHONY: deps deps-test deps-deb deps-image
deps: ## install what the build lacks (apt, as root or with sudo)
	@tools/deps.sh build
deps-test: ## likewise what the build and the tests lack
	@tools/deps.sh
deps-deb: ## likewise what the packages lack
	@tools/deps.sh deb
deps-image: ## likewise what the image and test-kubernetes lack
	@tools/deps.sh image

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' \
	    Makefile
