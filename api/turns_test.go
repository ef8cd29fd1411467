package api

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
)

func TestRequestsWithLongWorkTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{turns: &turns{slots: make(chan struct{}, 1)}}
		first, second := &request{h: h}, &request{h: h}
		first.giveWay()
		var waited time.Duration
		began := time.Now()
		go func() {
			second.giveWay()
			waited = time.Since(began)
		}()
		synctest.Wait()
		if second.turn.held.Load() {
			t.Fatal("the second request got a turn during the first one's")
		}
		first.endTurn()
		synctest.Wait()
		if !second.turn.held.Load() || waited != 0 {
			t.Errorf("got a turn %v after the first request's ended", waited)
		}
		second.endTurn()
		if n := len(h.turns.slots); n != 0 {
			t.Errorf("got %d turns in use after both ended, want 0", n)
		}
	})
}

func TestRequestThatWaitsForItsClientLosesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{turns: &turns{slots: make(chan struct{}, 1)}}
		stalled, other := &request{h: h}, &request{h: h}
		stalled.giveWay() // and never again: it waits
		began := time.Now()
		other.giveWay()
		if waited := time.Since(began); waited != turnLimit {
			t.Errorf("waited %v beside a stalled request, want %v", waited, turnLimit)
		}
		stalled.endTurn() // ends nothing: its turn is over
		if n := len(h.turns.slots); n != 1 {
			t.Errorf("got %d turns in use, want 1", n)
		}
		other.endTurn()
	})
}

func TestListsEndTheirTurns(t *testing.T) {
	s := newTestServer(t)
	for i := range 2 * checkEach {
		s.must(201, "POST", "/apis/demo.io/v1/namespaces/default/widgets", widget("w"+strconv.Itoa(i), ""))
	}
	for _, accept := range []string{"application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		s.must(200, "GET", "/apis/demo.io/v1/widgets", "", "Accept", accept)
		testkit.Eventually(t, accept+": no turn in use after the list", func() bool { return len(s.h.turns.slots) == 0 })
	}
}
