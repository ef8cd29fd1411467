package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestChurnOnASmallDisk lets somebody replace four large objects as fast as possible, on a disk of 1 GiB and in spite of a quota of objects,
// which filled the disk in ten seconds once. Others go on to write.
func TestChurnOnASmallDisk(t *testing.T) {
	t.Parallel()
	if inOwnNamespace(t, 3*time.Minute) {
		churn(t)
	}
}

func churn(t *testing.T) {
	const large, least = 4, 450 // objects, and how often they are replaced in all: 385 times were too many
	disk := newDisk(t, "1g")
	s := newServer(t, "--memory-limit", "512Mi")
	s.dir = disk.dir + "/data"
	s.start()
	s.do(t, 201, "POST", "/api/v1/namespaces", []byte(`{"metadata":{"name":"dev"}}`))
	letters := make([]byte, 1_000_000)
	for i := range letters {
		letters[i] = 'a' + byte(rand.IntN(26))
	}
	body := func(i int, n int64) []byte {
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": fmt.Sprint("c", i)}, "data": map[string]string{"a": fmt.Sprint(n) + string(letters)}})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const dev = "/api/v1/namespaces/dev/configmaps"
	for i := range large {
		s.do(t, 201, "POST", dev, body(i, 0))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var replaced, refused atomic.Int64
	var writers sync.WaitGroup
	for i := range large {
		writers.Go(func() {
			for ctx.Err() == nil && replaced.Load() < least {
				code, text, err := s.send(ctx, "PUT", fmt.Sprint(dev, "/c", i), body(i, replaced.Load()))
				switch {
				case err == nil && code == 200:
					replaced.Add(1)
				case err == nil && code == 429: // too many large requests at a time
					refused.Add(1)
					time.Sleep(50 * time.Millisecond)
				case ctx.Err() == nil:
					t.Errorf("the write after %d: got %d %s, %v", replaced.Load(), code, tail(string(text), 300), err)
					cancel()
				}
			}
		})
	}
	var took []time.Duration
	for i := 0; ctx.Err() == nil && replaced.Load() < least; i++ {
		began := time.Now()
		if code, text, err := s.send(ctx, "POST", configMapList, fmt.Appendf(nil, `{"metadata":{"name":"o%d"}}`, i)); ctx.Err() == nil && (err != nil || code != 201) {
			t.Errorf("somebody else's write after %d: got %d %s, %v", replaced.Load(), code, tail(string(text), 300), err)
		}
		took = append(took, time.Since(began))
		time.Sleep(20 * time.Millisecond)
	}
	writers.Wait()
	if replaced.Load() < least {
		t.Errorf("only %d of %d writes", replaced.Load(), least)
	}
	slices.Sort(took)
	t.Logf("%d replaced, %d had to wait; %d writes of others, 99th percentile %v", replaced.Load(), refused.Load(), len(took), took[len(took)*99/100])
}
