package api

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tests how long watchers let changes gather, by a clock that moves only while everybody waits.

func TestGather(t *testing.T) {
	for name, test := range map[string]struct {
		watchers int
		alone    bool          // the last change came alone
		ago      time.Duration // it was sent
		every    time.Duration // between changes
		changes  int           // that come
		want     time.Duration
	}{
		"after one that came alone":         {watchers: 50, alone: true, every: time.Millisecond, changes: 100, want: 0},
		"nothing comes":                     {watchers: 50, want: 5 * time.Millisecond},
		"nothing comes, some time later":    {watchers: 50, ago: 3 * time.Millisecond, want: 2 * time.Millisecond},
		"long ago":                          {watchers: 50, ago: time.Second, every: time.Millisecond, changes: 100, want: 0},
		"for as long as there are more":     {watchers: 50, every: time.Millisecond, changes: 7, want: 15 * time.Millisecond},
		"not for long":                      {watchers: 50, every: time.Millisecond, changes: 1000, want: 20 * time.Millisecond},
		"not for longer with more watchers": {watchers: 500, every: time.Millisecond, changes: 1000, want: 20 * time.Millisecond},
		"not after there are many":          {watchers: 50, every: 50 * time.Microsecond, changes: 1000, want: 5 * time.Millisecond},
		"shorter with fewer watchers":       {watchers: 4, every: 100 * time.Microsecond, changes: 1000, want: 1600 * time.Microsecond},
		"hardly with one":                   {watchers: 1, every: 60 * time.Microsecond, changes: 1000, want: 400 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mem.New(mem.Options{})
				defer s.Close()
				c := cache.New(s, cache.Options{})
				defer c.Close()
				res := c.Resource("g/p")
				var watches []*cache.Watch
				for range test.watchers {
					watch, err := res.Watch(res.Snapshot().Rev(), "")
					if err != nil {
						t.Fatal(err)
					}
					defer watch.Close()
					watches = append(watches, watch)
				}
				w := &watcher{w: watches[0]}
				if !test.alone {
					w.lastSent = time.Now()
				}
				time.Sleep(test.ago)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					for i := range test.changes {
						if !sleep(ctx, test.every) {
							return
						}
						if _, err := s.Create(t.Context(), fmt.Sprintf("g/p/%d", i), []byte("{}")); err != nil {
							t.Error(err)
							return
						}
					}
				}()
				began := time.Now()
				w.gather(ctx)
				if got := time.Since(began); got != test.want {
					t.Errorf("waited %v, want %v", got, test.want)
				}
				cancel()
				synctest.Wait()
				if w.gather(ctx); time.Since(began) != test.want {
					t.Error("it waits for somebody who has gone")
				}
			})
		})
	}
}
