package admit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsWithLongWorkTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Limits{turns: &turns{slots: make(chan struct{}, 1)}}
		first, second := &Holding{limits: l}, &Holding{limits: l}
		first.GiveWay()
		var waited time.Duration
		began := time.Now()
		go func() {
			second.GiveWay()
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
		if n := len(l.turns.slots); n != 0 {
			t.Errorf("got %d turns in use after both ended, want 0", n)
		}
	})
}

func TestRequestThatWaitsForItsClientLosesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Limits{turns: &turns{slots: make(chan struct{}, 1)}}
		stalled, other := &Holding{limits: l}, &Holding{limits: l}
		stalled.GiveWay() // and never again: it waits
		began := time.Now()
		other.GiveWay()
		if waited := time.Since(began); waited != turnLimit {
			t.Errorf("waited %v beside a stalled request, want %v", waited, turnLimit)
		}
		stalled.endTurn() // ends nothing: its turn is over
		if n := len(l.turns.slots); n != 1 {
			t.Errorf("got %d turns in use, want 1", n)
		}
		other.endTurn()
	})
}
