package admit

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/memory"
)

// This file tests what one user leaves for others.

// holding returns what a request of a user holds.
func (l *Limits) holding(user string, r *http.Request) *Holding {
	h := new(Holding)
	l.Begin(h, r)
	h.SetCaller(user, false)
	return h
}

// request returns a request without a body.
func request() *http.Request { return httptest.NewRequest("GET", "/", nil) }

// Ledger: requests-of-one-user.
func TestOneUserLeavesSlots(t *testing.T) {
	var c inFlight
	c.setMost(400)
	var shares []bool
	for {
		ok, shared := c.enter("mallory", false)
		if !ok {
			break
		}
		shares = append(shares, shared)
	}
	if len(shares) != 300 {
		t.Errorf("one user has %d slots of 400, want 300", len(shares))
	}
	for _, next := range []struct {
		user  string
		slots int
	}{{"jane", 66}, {"mary", 22}, {"mike", 8}, {"paul", 2}, {"rose", 1}, {"ruth", 1}, {"late", 0}} { // each leaves some
		slots := 0
		for {
			if ok, _ := c.enter(next.user, false); !ok {
				break
			}
			slots++
		}
		if slots != next.slots {
			t.Errorf("%s has %d slots, want %d", next.user, slots, next.slots)
		}
	}
	if ok, shared := c.enter("root", true); !ok || shared {
		t.Errorf("an administrator: got %v, of the share %v", ok, shared)
	}
	for _, shared := range shares {
		c.leave("mallory", shared)
	}
	if ok, _ := c.enter("mallory", false); !ok || c.shared.users["mallory"] != 1 {
		t.Errorf("after all were given back: got %v, %v", ok, c.shared.users)
	}
}

// TestWorkHasABudget works on bodies of the greatest length, as many as one user may have at a time, and on one more.
func TestWorkHasABudget(t *testing.T) {
	l := New(Config{Shares: memory.SharesOf(64 << 30)})
	var all []*Holding
	worker := func(name string, ctx context.Context) (*Holding, error) {
		h := l.holding(name, request())
		all = append(all, h)
		return h, h.workOnBody(ctx, MaxBody)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	most := (768 << 20) / (MaxBody * workFactor) // three quarters of 1 GiB
	for n := range most {
		if q, err := worker("jane", t.Context()); err != nil || q.charged != MaxBody*workFactor {
			t.Fatalf("body %d: charged %d, %v", n, q.charged, err)
		}
	}
	if q, err := worker("jane", impatient); err == nil || q.charged != 0 {
		t.Errorf("body %d: charged %d, %v, want that it waits", most+1, q.charged, err)
	}
	if q, err := worker("mary", t.Context()); err != nil || q.charged == 0 {
		t.Errorf("another user: charged %d, %v", q.charged, err)
	}
	small := l.holding("jane", request())
	if err := small.workOnBody(t.Context(), WorkFree); err != nil || small.charged != 0 {
		t.Errorf("a small body: charged %d, %v, want that it is free", small.charged, err)
	}
	for _, q := range all {
		q.Release()
	}
	if used := l.Leftovers(); used != "" {
		t.Errorf("at the end: %s", used)
	}
}

// TestValuesHaveABudget holds that a short body is charged for the Go value that it becomes.
func TestValuesHaveABudget(t *testing.T) {
	l := New(Config{Shares: memory.SharesOf(64 << 30)})
	h := l.holding("jane", request())
	if err := h.workOnBody(t.Context(), 1000); err != nil || h.charged != 0 {
		t.Errorf("a small body: charged %d, %v", h.charged, err)
	}
	if err := h.WorkOnValue(t.Context(), 1000); err != nil || h.charged != 0 {
		t.Errorf("a small value: charged %d, %v, want that it is free", h.charged, err)
	}
	const value, live = 100 << 20, 10_000
	if err := h.WorkOnValue(t.Context(), value); err != nil || h.charged != 1000*workFactor+value*valueFactor {
		t.Errorf("a large value: charged %d, %v", h.charged, err)
	}
	if err := h.WorkOnObject(t.Context(), live); err != nil || h.charged != (1000+live)*workFactor+value*valueFactor {
		t.Errorf("with a live object: charged %d, %v", h.charged, err)
	}
	h.Release()
	if used := l.Leftovers(); used != "" {
		t.Errorf("at the end: %s", used)
	}
}

// TestLargeHeadersHaveABudget checks that large headers are refused and dropped when their budget is used up, and that requests give it
// back.
func TestLargeHeadersHaveABudget(t *testing.T) {
	l := New(Config{Shares: memory.SharesOf(64 << 30)})
	ask := func() (*Holding, error) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Filler", strings.Repeat("x", 1<<20))
		r.Header.Set("Accept", "application/json")
		q := l.holding("jane", r)
		return q, q.CountHeaders()
	}
	var all []*Holding
	for {
		q, err := ask()
		if err == (TooMany{1}) {
			if len(q.r.Header) != 0 {
				t.Error("a header that is refused is kept")
			}
			break
		}
		all = append(all, q)
	}
	if n := len(all); n != 63 {
		t.Errorf("there are %d headers of 1 MiB in 64 MiB", n)
	}
	all[0].ShedHeaders() // it waits for its client
	if h := all[0].r.Header; h.Get("Accept") == "" || h.Get("X-Filler") != "" {
		t.Errorf("what is kept: %d fields", len(h))
	}
	if q, err := ask(); err != nil {
		t.Errorf("after one was forgotten: got %v", err)
	} else {
		all = append(all, q)
	}
	for _, q := range all {
		q.Release()
	}
	if left := l.Leftovers(); left != "" {
		t.Errorf("at the end: %s", left)
	}
}

// TestUsersHeadersHaveAShare holds that one user's large headers leave room for those of others.
func TestUsersHeadersHaveAShare(t *testing.T) {
	l := New(Config{Shares: memory.SharesOf(64 << 30)})
	ask := func(user string) (*Holding, error) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Filler", strings.Repeat("x", 1<<20))
		h := new(Holding)
		l.Begin(h, r)
		if err := h.CountHeaders(); err != nil {
			t.Fatal(err)
		}
		h.SetCaller(user, false)
		return h, h.CountUsersHeaders()
	}
	var all []*Holding
	for {
		q, err := ask("mallory")
		all = append(all, q)
		if err == (TooMany{1}) {
			break
		}
	}
	if n := len(all) - 1; n != 15 {
		t.Errorf("one user has %d headers of 1 MiB in 16 MiB", n)
	}
	q, err := ask("jane")
	if err != nil {
		t.Errorf("another user: got %v", err)
	}
	for _, q := range append(all, q) {
		q.Release()
	}
	if left := l.Leftovers(); left != "" {
		t.Errorf("at the end: %s", left)
	}
}

// Ledger: watches-of-one-user.
func TestWatchesOfOneUser(t *testing.T) {
	l := New(Config{Shares: memory.SharesOf(64 << 30)})
	l.watches.share = 1
	open := func(name string) (*Holding, error) {
		h := l.holding(name, request())
		return h, h.CountWatch()
	}
	first, err := open("jane")
	if err != nil {
		t.Errorf("the first watch: %v", err)
	}
	if _, err := open("jane"); err != (TooMany{1}) {
		t.Errorf("one too many: got %v", err)
	}
	if _, err := open("mary"); err != nil {
		t.Errorf("another user: got %v", err)
	}
	first.Release()
	if _, err := open("jane"); err != nil {
		t.Errorf("after the first one has ended: got %v", err)
	}
}

// TestWatchesShrinkWithTheMemory opens as many watches as one user, and others, may have in servers with a small and with no limit.
func TestWatchesShrinkWithTheMemory(t *testing.T) {
	for _, test := range []struct{ limit, one, all int64 }{{memory.Least, 120, 240}, {448 << 20, 552, 1104}, {64 << 30, 16_384, 196_368}, {0, 16_384, math.MaxInt64}} {
		var q quota
		q.most, q.share = watchesWithin(memory.SharesOf(test.limit).Watches)
		if q.most != test.all {
			t.Errorf("%d MiB: all users may have %d watches, want %d", test.limit>>20, q.most, test.all)
		}
		jane := int64(0)
		for q.acquire("jane", 1, false) {
			jane++
		}
		if jane != test.one || !q.acquire("mary", 1, false) || !q.acquire("root", 1, true) {
			t.Errorf("%d MiB: one user may have %d watches, want %d, and that others have some", test.limit>>20, jane, test.one)
		}
	}
}
