# Everything here runs with one toolchain, whatever Go is installed.
export GOTOOLCHAIN := go1.27.3
export GOFLAGS := -buildvcs=false

# make install puts the program and its units to PREFIX below DESTDIR; see README.md.
PREFIX ?= /usr/local
BIN ?= bin/trafficup

.PHONY: build install test race lint demo nights bench-rss bench-ledger fuzz night
build:
	go build -o bin/trafficup ./cmd/trafficup

install:
	@test -x $(BIN) || { echo "there is no $(BIN): make build first, as yourself"; exit 1; }
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/trafficup
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for u in packaging/systemd/*.service; do \
	  sed 's|/usr/bin/trafficup|$(PREFIX)/bin/trafficup|' $$u > $(DESTDIR)$(PREFIX)/lib/systemd/system/$${u##*/} || exit 1; \
	  chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/$${u##*/} || exit 1; done

# Packages that measure real time run after all others: the one with kernels alone,
# the two that mostly wait beside each other.
KERNELS := ./test/linklab
WAITING := ./test/redislab ./test/edgelab

test:
	go test -timeout 20m $$(go list ./... | grep -vxF "$$(go list $(KERNELS) $(WAITING))")
	go test -timeout 20m $(KERNELS)
	go test -timeout 20m -p 2 $(WAITING)

race:
	go test -race -timeout 30m ./...

# Random nights, simulated: make nights N=1000 SEED=1. Prints nights a second.
N ?= 10000
SEED ?= 1
nights:
	go test ./cmd/trafficup -run '^TestNights$$' -v -timeout 2h -nights=$(N) -nights.seed=$(SEED)

lint:
	go vet ./...
	go tool staticcheck ./...
	GOOS=darwin go build -o /dev/null ./cmd/trafficup
	cd test/oauthpeer && go vet ./... && $$(go -C ../.. tool -n staticcheck) ./...
	@bad=$$(gofmt -l cmd internal test testdata); test -z "$$bad" || { echo "not gofmt-ed: $$bad"; exit 1; }

# A night with faults against a stand-in API; no server needed. It ends with
# code 3: the night holds records that a person has to mend.
demo: build
	bin/trafficup upload --sandbox=flaky --state-dir $$(mktemp -d) testdata/night; code=$$?; echo "exit $$code"; test $$code -eq 3

# An edge node whose first uplink fails and comes back, in ways that are drawn, in
# real time: make edge-cycles N=100 takes about five minutes.
.PHONY: edge-cycles edge-detection
edge-cycles: N := 100
edge-cycles:
	go test ./test/edgelab -run '^TestCycles$$' -v -timeout 6h -edgelab.cycles=$(N)

# How long each kind of failure takes to be seen with the preset leo as it is: least,
# mean and most of N. Each takes about half a minute.
edge-detection: N := 4
edge-detection:
	go test ./test/edgelab -run '^TestDetection$$' -v -timeout 6h -parallel 16 -edgelab.detections=$(N)

# Sixty days of a low satellite's link, simulated with the preset leo and, beside it, with
# the rule that many scripts have. It takes about ten seconds.
.PHONY: failover-days
failover-days: N := 60
failover-days:
	go test ./internal/failover -run '^TestSimulateLEO$$' -v -timeout 1h -failover.days=$(N)

# Peak memory of an upload of 2 million records from stdin.
bench-rss: build
	go run ./test/rss -bin bin/trafficup -n 2000000

# What a ledger of 10 million acked records costs: time to open, memory, disk.
bench-ledger:
	go test ./internal/journal -run '^$$' -bench Open -benchtime 1x -ledger 10000000 -timeout 30m
	go test ./internal/journal -run '^$$' -bench 'Record|Batch'

fuzz:
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep ^Fuzz); do \
	  go test -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-20s} $$p || exit 1; done; done

# Generates testdata/night anew.
night:
	go run ./test/nightgen -out testdata/night

# The link lab: uploads over bad links, in kernels of its own. Needs root and
# the Debian packages user-mode-linux, kmod and iproute2. SET: all, quick, or
# names of scenarios with commas between them (docs/linklab.md).
SET ?= all
.PHONY: linklab
linklab:
	go test ./test/linklab -run '^TestLinks$$' -v -count=1 -timeout 15m -linklab.profiles=$(SET) -linklab.limit=10m -linklab.strict

# A night at an edge node whose satellite is gone for five minutes, in that lab.
.PHONY: edge-night
edge-night:
	LINKLAB=1 go test ./test/linklab -run '^TestEdgeNight$$' -v -count=1 -timeout 20m -linklab.edge
