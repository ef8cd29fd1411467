# Everything that is done in this repository from the command line. "make" alone prints this list.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Packages where goroutines share memory: they are tested under the race detector, and only there. It makes everything many times
# slower, so it is not used where everything happens in one goroutine, nor for the tests named TestHeavy, which work on large inputs.
RACE := ./internal/store/... ./internal/cache/... ./kind ./crd ./internal/api/... ./internal/objects ./internal/apply ./internal/authn ./internal/controller/... ./internal/admission/... ./internal/audit ./internal/reloads \
	./authz ./internal/authz/feed ./internal/authz/node ./internal/authz/reload
# Packages of these with tests named TestHeavy.
HEAVY := ./internal/admission/policy ./internal/api ./internal/api/table ./internal/apply ./crd
# Fuzz targets run this long each.
FUZZTIME ?= 30s
# Random expressions beside cel-go: how many cases in place of a time, and where they begin.
CASES ?=
SEED ?= 1
# Objects and random definitions that conformance-schema compares.
OBJECTS ?= 1000000
DEFINITIONS ?= 10000

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-32s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## the keelson binary, into bin/
	$(GO) build -o bin/keelson ./cmd/keelson

# VERSION=v1.0.0, KEY=cosign.key signs, TARGETS=linux/amd64 makes some.
VERSION ?= v0.0.0-dev
KEY     ?=
TARGETS ?=
RELEASE  = cd release && $(GO) run . -version '$(VERSION)' -date "$$(git log -1 --format=%ct)" $(if $(KEY),-key '$(abspath $(KEY))')
.PHONY: release
release: ## all packages of VERSION, into bin/release, signed if there is a KEY (docs/packages.md); compiles six times, which takes long
	$(RELEASE) $(if $(TARGETS),-targets '$(TARGETS)')

.PHONY: release-test
release-test: ## the packages for Linux on amd64, twice, with the same bytes; then they are installed in folders and run; as root; builds Helm, too
	$(RELEASE) -targets linux/amd64 -twice
	cd release && $(GO) test -count=1 -v -timeout=20m -run '^(TestInstalled.*|TestGoInstall|TestAction|TestHooks)$$' . -packages=../bin/release
	cd conformance/clients && $(GO) test -count=1 -v -timeout=20m -run '^TestChart$$' .

# HUGO=hugo uses an installed one. NPM fetches the search of the site.
NPM      ?= npm
CHROMIUM ?= chromium
HUGO     ?= CGO_ENABLED=0 $(GO) run github.com/gohugoio/hugo@v0.164.0
.PHONY: site
site: ## the website of docs/, into bin/site; fails for warnings, dead links, pages above 300 KB; compiles Hugo first, which takes minutes
	$(GO) run ./internal/site -o .tmp/site
	$(NPM) pack --silent --pack-destination .tmp minisearch@7.2.0 >.tmp/npm.txt
	tar -xzOf .tmp/minisearch-7.2.0.tgz package/dist/es/index.js >.tmp/site/static/minisearch.js
	tar -xzOf .tmp/minisearch-7.2.0.tgz package/LICENSE.txt >.tmp/site/static/minisearch-license.txt
	$(HUGO) --source .tmp/site --destination "$$PWD/bin/site" --cleanDestinationDir --panicOnWarning --quiet
	$(GO) run ./internal/site -index bin/site
	$(GO) run ./internal/site -check bin/site

.PHONY: site-look
site-look: ## bin/site in Chromium: axe-core on each page, light, dark and as a phone; screenshots in .tmp/axe/shots; installs Chromium
	command -v $(CHROMIUM) >/dev/null || apt-get install -y -qq chromium
	mkdir -p .tmp/axe/shots
	$(NPM) install --silent --no-fund --no-audit --prefix .tmp/axe puppeteer-core@24.43.1 axe-core@4.14.1
	cd .tmp/axe && CHROMIUM="$$(command -v $(CHROMIUM))" node ../../site/axe.mjs ../../bin/site shots

.PHONY: figures
figures: ## files, lines and comments of each folder; long and branchy functions; package variables that change
	$(GO) run ./internal/figures

.PHONY: sizes
sizes: ## packages and bytes of the released binary and of programs that use the library, and builds for all platforms; needs xz
	$(GO) test -count=1 -v -timeout=60m ./internal/sizes -release -cross | grep -avE '^=== '

.PHONY: published
published: ## validate and lint on the sources of other projects, which are downloaded; fails if docs/found.md or ci.md has other figures; UPDATE=1 writes them
	$(GO) test -count=1 -v -timeout=60m ./internal/published -download $(if $(UPDATE),-update) | grep -avE '^=== '

.PHONY: hooks
hooks: ## installs the git hooks of .githooks in this repository: a subject over 72 characters is refused
	git config core.hooksPath .githooks

STAGES := vet lint unit race e2e conformance-quick
.PHONY: test
test: ## everything that a change must pass; what it needs is downloaded
	@for stage in $(STAGES); do \
		began=$$SECONDS; $(MAKE) --no-print-directory $$stage; printf 'stage %s: %d s\n' $$stage $$((SECONDS - began)); \
	done; printf 'make test: all stages pass, in %d s: %s\n' $$SECONDS '$(STAGES)'

# BASE=v1.2.0 compares with another commit.
.PHONY: check
check: ## format, vet, staticcheck and tests of what changed since BASE (default main) and of what imports it, and a smoke test of the binary
	BASE='$(or $(BASE),main)' STATICCHECK='$(STATICCHECK)' GO='$(GO)' .ci/check

.PHONY: vet
vet:
	test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(GO) vet ./... && $(GO) vet -tags poison ./internal/poison

.PHONY: lint
lint: ## staticcheck, with the reasons for what is off in staticcheck.conf
	$(GO) run $(STATICCHECK) ./...

# "make vet" has run: -vet=off does not do it once more for each test binary.
.PHONY: unit
unit: ## tests of the packages, but for those that "make race" runs, and for the end-to-end tests
	$(GO) test -vet=off -p=3 $$($(GO) list ./... | grep -v /e2e | grep -vxF -f <($(GO) list $(RACE)))
	$(GO) test -vet=off -run '^TestHeavy' $(HEAVY)
	$(GO) test -vet=off -count=1 . ./internal/sizes ./internal/publicapi # they ask the go command: a cached result would not notice a new answer
	cd bench && $(GO) test ./gate
	cd attack && $(GO) vet . && $(GO) test .
	cd keelsontest && $(GO) vet . && $(GO) test -count=1 .
	cd release && $(GO) vet . && $(GO) test .

# Packages with fast paths, and end-to-end tests that write and read through most of them.
PLAIN     := ./cel/... ./schema ./internal/apply ./crd ./internal/api ./internal/authz/match
PLAIN_E2E := TestApplyTakesOverWhatClientSideApplySet|TestKubectlVerbs|TestCompat|TestChangingSchemas|TestBetaDefinitions|TestWebhooks
.PHONY: plain
plain: ## tests of the packages with fast paths, and some end-to-end tests, with all fast paths switched off (docs/fastpaths.md)
	KEELSON_FASTPATHS=off $(GO) test -short $(PLAIN)
	KEELSON_FASTPATHS=off $(GO) test -count=1 -parallel=4 -timeout=10m -run '^($(PLAIN_E2E))$$' ./e2e/

.PHONY: race
race: ## tests of the packages with goroutines, under the race detector and in the poison mode
	$(GO) test -vet=off -race -skip '^TestHeavy' -tags poison $(RACE)

.PHONY: poison
poison: ## unit, race and e2e tests in the poison mode: documents and buffers are overwritten when they go back to a pool
	GOFLAGS=-tags=poison $(MAKE) --no-print-directory unit race e2e

.PHONY: e2e
e2e: ## the real binary, driven by real kubectl and client-go
	@command -v jq >/dev/null || apt-get install -y jq || echo 'without jq, some commands of pages do not run'
	$(GO) test -vet=off -count=1 -parallel=4 -timeout=20m -p=1 ./e2e/ ./e2e/pages/

.PHONY: site-test
site-test: ## every command of the pages, with those that compile Go programs, and what they print; UPDATE_PAGES=1 writes the outputs
	$(GO) test -count=1 -timeout=60m -v ./e2e/pages/ -long | grep -avE '^=== '

# So many cases take about ten seconds. A number, not a time: what every change must pass does not depend on the machine.
.PHONY: conformance-quick
conformance-quick: ## what make test runs of the comparison with upstream's code: a few minutes of it
	cd conformance && $(GO) test -short -timeout=10m -p=4 ./...
	$(MAKE) --no-print-directory fuzz-cel CASES=300000
	cd conformance/authz && $(GO) test -short -timeout=10m ./...
	cd conformance/gc && $(GO) test -short -timeout=10m .
	cd conformance/sql && $(GO) test -timeout=10m -run TestRandom/sqlite -pairs=1000000 .
	cd conformance && $(GO) test -count=1 -v -run TestPublishedSuite ./celspec | grep -E "^(\||cel-spec|---|FAIL|ok)"

.PHONY: conformance
conformance: conformance-quick ## the comparison with upstream's code: the quick part, upstream's integration tests, other projects' clients and controllers, killed processes
	$(MAKE) --no-print-directory conformance-upstream
	$(MAKE) --no-print-directory conformance-integration
	$(MAKE) --no-print-directory conformance-http
	$(MAKE) --no-print-directory conformance-builtin
	$(MAKE) --no-print-directory conformance-sql
	$(MAKE) --no-print-directory conformance-clients
	$(MAKE) --no-print-directory conformance-kubebuilder
	$(MAKE) --no-print-directory conformance-controller-runtime
	$(MAKE) --no-print-directory conformance-kubectl
	$(MAKE) --no-print-directory conformance-cluster
	$(MAKE) --no-print-directory conformance-operators

.PHONY: conformance-witness
conformance-witness: ## for each rule of the published definitions, the smallest accepted and refused object, confirmed by upstream's validation; minutes
	cd conformance && $(GO) test -count=1 -timeout=30m -v -run '^TestWitnesses$$' ./schema | grep -avE '^=== '

# The oracles are built once, which takes minutes each, and kept in the user's cache (40 MB each). RELEASES=1.31 compares some.
RELEASES ?= all
.PHONY: conformance-versions
conformance-versions: ## verdicts of Kubernetes 1.29 to 1.37 on published definitions, beside upstream's libraries of each; RELEASES
	cd conformance && nice $(GO) test -count=1 -timeout=0 -v ./versions -kubernetes '$(RELEASES)' | grep -avE '^=== '

.PHONY: conformance-upstream
conformance-upstream: ## upstream's own integration tests, against the keelson binary
	cd conformance && $(GO) test -count=1 -timeout=20m -v ./integration | grep -avE '^ *(=== |--- (PASS|SKIP))'

# make conformance-integration PACKAGES='^auth$$' TESTS=TestNode runs some of them; ORIGINAL=1 with upstream's own server.
PACKAGES ?=
TESTS    ?=
ORIGINAL ?=
.PHONY: conformance-integration
conformance-integration: ## Kubernetes' own integration tests of its API server, against the keelson binary; compiles one package after the other, which takes minutes each
	cd conformance/kubeintegration && $(GO) test -count=1 -timeout=0 -v . -packages='$(PACKAGES)' -tests='$(TESTS)' $(if $(ORIGINAL),-original) | grep -avE '^ *(=== |--- (PASS|SKIP))'

# make test sends the scripts, and few of the others.
REQUESTS ?= 4000
.PHONY: conformance-http
conformance-http: ## thousands of requests to upstream's server and to ours: scripts, combinations, and REQUESTS generated ones
	cd conformance && $(GO) test -count=1 -timeout=30m -v -run TestHTTP ./http -requests=$(REQUESTS) -seed=$(SEED) | grep -avE '^=== '

.PHONY: conformance-builtin
conformance-builtin: ## thousands of requests about built-in kinds to kube-apiserver and to ours; compiles kube-apiserver first, which takes minutes
	cd conformance/builtin && $(GO) test -count=1 -timeout=30m -v . | grep -avE '^=== '

# PAIRS=10000000 compares that many pairs of an expression and a document in each database.
PAIRS ?= 2000000
.PHONY: conformance-sql
conformance-sql: ## expressions as SQL in PostgreSQL and SQLite, beside the evaluator; rules of published definitions; installs PostgreSQL; PAIRS, SEED
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || apt-get install -y postgresql
	cd conformance/sql && $(GO) test -count=1 -timeout=0 -v . -pairs=$(PAIRS) -seed=$(SEED) -catalog | grep -avE '^=== '
	cd conformance/sql/peer && $(GO) test -count=1 -timeout=10m . # beside cel2sql

.PHONY: drift
drift: ## feature gates and flags of the newest published Kubernetes that lack a decision; needs the network
	cd conformance/builtin && $(GO) test -count=1 -timeout=30m -v -run '^TestDrift$$' . -newest | grep -avE '^=== '

# make test compares 64 graphs. SEED=n begins with another one.
GRAPHS ?= 10000
.PHONY: conformance-gc
conformance-gc: ## GRAPHS (default 10000) generated graphs of owners, collected by upstream's garbage collector and by ours; takes ten minutes
	cd conformance/gc && $(GO) test -count=1 -v -timeout=0 . -graphs=$(GRAPHS) -seed=$(SEED) | grep -avE '^=== '

.PHONY: conformance-clients
conformance-clients: ## Helm 3 and 4, Flux's and Argo CD's libraries, against the keelson binary; builds them first, which takes minutes
	cd conformance/clients && $(GO) test -count=1 -timeout=20m -v . | grep -avE '^=== '

.PHONY: conformance-kubebuilder
conformance-kubebuilder: ## the projects of Kubebuilder's tutorials, written by Kubebuilder: their own make test, on the keelson binary; takes minutes
	cd conformance && $(GO) test -count=1 -timeout=60m -v ./kubebuilder | grep -avE '^=== '

VERSIONS ?= all
.PHONY: conformance-keelsontest
conformance-keelsontest: ## a controller with a webhook, in plain tests and Ginkgo, on keelsontest, beside controller-runtime VERSIONS (default 0.19 to the newest); takes minutes each
	cd conformance && $(GO) test -count=1 -timeout=0 -v ./keelsontest -versions=$(VERSIONS) | grep -avE '^ *=== '

.PHONY: conformance-keelsontest-suites
conformance-keelsontest-suites: ## the suites of three operators with their start-up lines changed from envtest to keelsontest; PROJECTS; takes ten minutes each
	cd conformance && $(GO) test -count=1 -timeout=0 -v -run '^TestKeelsontest$$' ./operators -projects='$(PROJECTS)' | grep -avE '^ *(=== |--- PASS)'

.PHONY: conformance-controller-runtime
conformance-controller-runtime: ## controller-runtime's own tests that start a control plane, unchanged, on the keelson binary; takes minutes
	cd conformance && $(GO) test -count=1 -timeout=60m -v ./controllerruntime | grep -avE '^=== '

# PROJECTS=lws,jobset runs some of them, UPDATE=1 writes the table into docs/conformance.md, KEEP=DIR keeps what is built for the next
# run, OPERATORS='-suites=webhook -logs=DIR' gives more flags.
PROJECTS  ?=
UPDATE    ?=
KEEP      ?=
OPERATORS ?=
.PHONY: conformance-operators
conformance-operators: ## the envtest suites of published operators, unchanged, on the keelson binary and on kube-apiserver; PROJECTS, UPDATE; takes hours
	cd conformance && $(GO) test -count=1 -timeout=0 -v -run '^TestOperators$$' ./operators -projects='$(PROJECTS)' $(if $(UPDATE),-update) \
		$(if $(KEEP),-keep='$(abspath $(KEEP))') $(OPERATORS) | grep -avE '^ *(=== |--- PASS)'

# FUNCTIONS='crd|diff' runs some functions, UPDATE=1 writes the results into docs/conformance.md, MANAGER=1 has a controller manager.
FUNCTIONS ?=
MANAGER   ?=
KUBECTL_TOOLS := curl diff jq openssl script ss
.PHONY: conformance-kubectl
conformance-kubectl: ## Kubernetes' own tests of kubectl (test/cmd), unchanged, on kube-apiserver and on the keelson binary; builds them first; FUNCTIONS, UPDATE
	@for tool in $(KUBECTL_TOOLS); do command -v $$tool >/dev/null || missing=1; done; \
	if [ -n "$${missing:-}" ]; then apt-get install -y bsdutils curl diffutils iproute2 jq openssl util-linux; fi
	cd conformance/kubectl && $(GO) test -count=1 -timeout=0 -v . -functions='$(FUNCTIONS)' $(if $(UPDATE),-update) $(if $(MANAGER),-manager) | grep -avE '^=== '

# make test runs the same for ten seconds.
.PHONY: conformance-cluster
conformance-cluster: ## three servers on three etcd members under load for two minutes, while any of them is killed at any time
	cd conformance && $(GO) test -count=1 -timeout=20m -v ./cluster -load=2m | grep -avE '^=== '

.PHONY: conformance-full
conformance-full: ## all of the comparison with upstream's code
	cd conformance && $(GO) test -timeout=60m ./...
	cd conformance/authz && $(GO) test -timeout=60m ./...
	$(MAKE) --no-print-directory conformance-gc

.PHONY: conformance-schema
conformance-schema: ## OBJECTS (default a million) objects of the definitions of many projects, these definitions and DEFINITIONS random ones, compared with upstream's code
	cd conformance && nice $(GO) test -count=1 -timeout=0 -v -run TestCatalogObjects ./schema -objects=$(OBJECTS)
	cd conformance && nice $(GO) test -count=1 -timeout=0 -v -run 'TestCatalog|TestRandomDefinitions' ./kind -definitions=$(DEFINITIONS) | grep -avE '^ *(=== |--- PASS)'

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZTIME (default 30s) each, in the poison mode
	$(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | while read -r dir; do \
		{ grep -hoE '^func (Fuzz[A-Za-z0-9_]+)' "$$dir"/*_test.go || true; } | awk '{print $$2}' | while read -r target; do \
			echo "$$dir $$target"; $(GO) test -tags poison -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$dir"; \
		done; \
	done

	$(MAKE) --no-print-directory fuzz-cel

# Hostile traffic beside ordinary work, against the real binary: its rounds are drawn from SEED, and kept in attack/findings if they find something.
ATTACK_TIME ?= 1h
ATTACK      ?=
.PHONY: attack
attack: ## generated hostile traffic against the binary for ATTACK_TIME (default 1h), while others do ordinary work; ATTACK='-moves=nest,lists' gives flags
	cd attack && $(GO) run . -time $(ATTACK_TIME) -seed $(SEED) $(ATTACK)

.PHONY: attack-quick
attack-quick: ## five rounds of it, at most two minutes of an idle machine, with every move but items once; the machine may do other work, too
	cd attack && $(GO) run . -moves=-items -shared -deal -rounds 5 -round 8s -settle 30s -width 7 -size 40 -seed 1 -shrink=false -v

.PHONY: attack-cel
attack-cel: ## calls of all functions and macros of CEL with large and odd arguments: their processor time beside their cost; three minutes
	$(GO) test -count=1 -timeout=30m -v -run '^TestProcessorTime$$' ./cel -processor-time

.PHONY: attack-lists
attack-lists: ## each list and map of built-in kinds, filled with equal and distinct items: the processor time must grow as the body; some minutes
	$(GO) test -count=1 -timeout=60m -v -run '^TestWorkGrowsWithTheObject$$' ./internal/builtin -linear

# The commit before the defects were mended that the attack was written for: docs/security.md has what it must find there.
ATTACK_BASE ?= 5db1750
.PHONY: attack-base
attack-base: ## the attack on the binary of ATTACK_BASE for 30 minutes: what it finds there
	dir=$$(mktemp -d); trap 'git worktree remove --force '"$$dir"'/tree; rm -rf '"$$dir" EXIT; \
	git worktree add --detach $$dir/tree $(ATTACK_BASE) && (cd $$dir/tree && $(GO) build -buildvcs=false -o $$dir/keelson ./cmd/keelson) && \
	cd attack && $(GO) run . -bin $$dir/keelson -shared -deal -time 30m -settle 15s -seed $(SEED) -shrink=false -fresh 1 -v $(ATTACK) || true

# Faults are drawn from SEED. The last line of a failure names the seed and the round.
FAULTS_TIME ?= 5m
.PHONY: faults
faults: ## faults under a server that is written to, for FAULTS_TIME (default 5m): etcd's failpoints, full disks, limits, suspended and killed processes; then as long a disk that fails and loses power
	KEELSON_FAULTS=$(FAULTS_TIME) KEELSON_FAULTS_SEED=$(SEED) $(GO) test -count=1 -timeout=0 -v -run '^(TestFaults|TestFaultsOfEtcd|TestFlippedBits|TestFullDisk|TestClockJumps)$$' ./e2e/ | grep -avE '^=== '
	$(MAKE) --no-print-directory faults-disk

.PHONY: faults-disk
faults-disk: ## a disk (FUSE) under a server that is written to, for FAULTS_TIME: it fails, tears writes and loses power; needs root
	cd attack && $(GO) run . -power -shared -damage=false -time $(FAULTS_TIME) -round 1s -settle 20s -width 1 -moves events,apply,breed,define -shrink=false -seed $(SEED)

# A run that needs hours in all goes on for TIME; its totals are in docs/longruns.md.
RUN  ?= fuzz
TIME ?= 10m
.PHONY: longrun
longrun: ## goes on with RUN=fuzz, attack or kills for TIME (default 10m), and adds what it did to the totals in docs/longruns.md
	$(GO) run ./internal/longruns -time $(TIME) $(RUN)

.PHONY: fuzz-cel
fuzz-cel: ## random expressions beside cel-go for FUZZTIME, or CASES=10000000 of them; SEED=n goes on at n
	cd conformance && $(GO) test -count=1 -v -timeout=0 -run '^TestRandom$$' ./cel -compare.seed $(SEED) \
		$(if $(CASES),-compare.cases $(CASES),-compare.time $(FUZZTIME)) | grep -avE '^=== '

.PHONY: fuzz-explain
fuzz-explain: ## explains CASES (default 1000000) random evaluations; cel-go computes each part from the values of its parts
	cd conformance && $(GO) test -count=1 -v -timeout=0 -run '^TestExplanations$$' ./cel -explain.seed $(SEED) \
		-explain.cases $(or $(CASES),1000000) | grep -avE '^=== '

.PHONY: bench
bench: ## Keelson beside upstream's server, then the engine, single rules, authorization and admission: prints ratios, writes them into the documents
	cd bench && $(GO) run . -o ../docs/benchmarks.md
	cd bench && $(GO) run . engine -o ../docs/benchmarks.md
	cd bench && $(GO) run . rules -o ../docs/benchmarks.md
	cd bench && $(GO) run . authz -o ../docs/benchmarks.md
	cd bench && $(GO) run . admission -o ../docs/benchmarks.md

# Rows that a regular expression matches, rounds (6 at least) and the tolerance in percent: make bench-compare BASE=v1 ROWS='get|list' ROUNDS=30
BASE   ?=
ROWS   ?=
ROUNDS ?= 10
LIMIT  ?= 3
.PHONY: bench-compare
bench-compare: ## the work tree beside the commit BASE, in turns: fails if a row's cost grew by more than LIMIT (default 3) percent; ROUNDS, ROWS
	cd bench && $(GO) run . compare -base '$(BASE)' -rounds '$(ROUNDS)' -rows '$(ROWS)' -limit '$(LIMIT)'

# make bench-fastpath OFF=diagrams ROWS=rules; docs/fastpaths.md has the names
OFF    ?=
.PHONY: bench-fastpath
bench-fastpath: ## the work tree beside itself without the fast paths OFF, in turns: what they are worth; ROUNDS, ROWS
	cd bench && $(GO) run . compare -off '$(OFF)' -rounds '$(ROUNDS)' -rows '$(ROWS)' -limit 1000

.PHONY: bench-scale
bench-scale: ## 100,000 objects and 10,000 watchers on one server: takes two minutes
	cd bench && $(GO) run . scale -o ../docs/benchmarks.md

.PHONY: bench-fairness
bench-fairness: ## one client's latency at a fixed rate beside another client that lists in a loop; needs two processors
	cd bench && $(GO) run . fairness -o ../docs/benchmarks.md

.PHONY: bench-validate
bench-validate: ## keelson validate on 40,000 manifests beside kubeconform
	cd bench && $(GO) run . validate -o ../docs/benchmarks.md

OBJECTS ?= 1000000
.PHONY: bench-sql
bench-sql: ## queries over a million objects in SQLite and PostgreSQL, beside the evaluator; OBJECTS
	cd conformance/sql && $(GO) test -count=1 -timeout=0 -v -run TestBench . -bench-objects=$(OBJECTS) | grep -avE '^=== '

.PHONY: bench-definitions
bench-definitions: ## 2,000 definitions on one server: the first and the last, and the memory they take, beside upstream
	cd bench && $(GO) run . definitions -o ../docs/benchmarks.md

.PHONY: bench-rules
bench-rules: ## single rules of published definitions beside bare cel-go and upstream's validation
	cd bench && $(GO) run . rules -o ../docs/benchmarks.md

.PHONY: bench-authz
bench-authz: ## what authorization costs: a request by RBAC and behind 100 webhooks, decisions among 20,000 bindings, match conditions
	cd bench && $(GO) run . authz -o ../docs/benchmarks.md

.PHONY: bench-admission
bench-admission: ## what admission costs a request: 1 and 1,000 policies and webhooks for others, 100 policies that are for it, beside upstream's
	cd bench && $(GO) run . admission -o ../docs/benchmarks.md

.PHONY: bench-engine
bench-engine: ## the engine alone beside upstream's and encoding/json: decode, default, validate, rules; compile
	cd bench && $(GO) run . engine -o ../docs/benchmarks.md
