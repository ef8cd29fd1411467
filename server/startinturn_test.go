package server

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestControllersStartInTurn holds that controllers start one after another, and all of them, also if the server stops meanwhile.
func TestControllersStartInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		var started []time.Duration
		var controllers []func(context.Context)
		var mu sync.Mutex
		for range 3 {
			controllers = append(controllers, func(ctx context.Context) {
				mu.Lock()
				started = append(started, time.Since(began))
				mu.Unlock()
				<-ctx.Done()
			})
		}
		var workers sync.WaitGroup
		workers.Go(func() { startInTurn(ctx, &workers, controllers) })
		time.Sleep(startPause + startPause/2)
		stop()
		workers.Wait()
		if len(started) != 3 || started[0] != 0 || started[1] != startPause {
			t.Errorf("three controllers started after %v, want 0, %v, and the third although the server stops", started, startPause)
		}
	})
}
