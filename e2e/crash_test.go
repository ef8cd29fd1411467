package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// killCount returns how often the server is killed: 100 times, or KEELSON_KILLS times. A restart takes some tenths of a second.
func killCount(t *testing.T) int {
	text := os.Getenv("KEELSON_KILLS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("KEELSON_KILLS: got %q, want a number of kills", text)
	}
	return n
}

// acknowledged is what a writer was told about its objects.
type acknowledged struct {
	mu      sync.Mutex
	objects map[string]ack
}

// ack is the last state of an object that the server confirmed, and whether a write came after it that nobody answered: then the
// object may be in either state.
type ack struct {
	value     int
	gone      bool
	uncertain bool
}

// TestKilledServerKeepsEveryAcknowledgedWrite kills the server many times in the middle of concurrent writes. After each
// start, which needs no help, every write that was answered is there, and the object of one that was not is in the state before it
// or after it.
func TestKilledServerKeepsEveryAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", "/apis/demo.example.org/v1/gadgets", nil)
		return err == nil && code == 200
	})
	const writers = 8
	kills := killCount(t)
	var known [writers]acknowledged
	for w := range known {
		known[w].objects = map[string]ack{}
	}
	writes, began := 0, time.Now()
	for round := range kills {
		var wg sync.WaitGroup
		counts := make([]int, writers)
		for w := range writers {
			wg.Go(func() { counts[w] = known[w].write(s, w, round) })
		}
		time.Sleep(time.Duration(20+rand.IntN(130)) * time.Millisecond)
		s.stop(syscall.SIGKILL)
		wg.Wait()
		s.start()
		for _, n := range counts {
			writes += n
		}
		verify(t, s, &known, round)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, %d acknowledged writes, %.1f s", kills, writes, time.Since(began).Seconds())
	if writes < kills*writers {
		t.Errorf("got %d acknowledged writes in %d rounds: the server was killed before it did anything", writes, kills)
	}
}

// write creates, changes and deletes objects of one writer until the server is gone; it returns how many writes were answered.
func (a *acknowledged) write(s *server, writer, round int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	const list = "/apis/demo.example.org/v1/namespaces/default/gadgets"
	for n := 0; ; n++ {
		name := fmt.Sprintf("w%d-%d", writer, n%25)
		before, there := a.objects[name]
		there = there && !before.gone
		value := round*10000 + n
		var code int
		var err error
		next := ack{value: value}
		switch {
		case !there:
			body := fmt.Sprintf(`{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":%q,"annotations":{"value":"%d"}},"spec":{"color":"red"}}`, name, value)
			code, _, err = s.try("POST", list, []byte(body))
		case n%5 == 0:
			next = ack{gone: true}
			code, _, err = s.try("DELETE", list+"/"+name, nil)
		default:
			body := fmt.Sprintf(`{"metadata":{"annotations":{"value":"%d"}}}`, value)
			code, _, err = s.try("PATCH", list+"/"+name, []byte(body), "Content-Type", "application/merge-patch+json")
		}
		if err != nil || code/100 != 2 {
			before.uncertain = true
			if !there {
				before.gone = true
			}
			a.objects[name] = before
			return n
		}
		a.objects[name] = next
	}
}

// verify compares what is stored with what was acknowledged, and takes over what uncertain writes turned out to have done.
func verify(t *testing.T, s *server, known *[8]acknowledged, round int) {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
		}
	}
	if err := json.Unmarshal(s.do(t, 200, "GET", "/apis/demo.example.org/v1/namespaces/default/gadgets", nil), &list); err != nil {
		t.Fatal(err)
	}
	stored := map[string]int{}
	for _, o := range list.Items {
		var v int
		fmt.Sscan(o.Metadata.Annotations["value"], &v)
		stored[o.Metadata.Name] = v
	}
	for w := range known {
		for name, a := range known[w].objects {
			v, there := stored[name]
			delete(stored, name)
			if a.uncertain {
				known[w].objects[name] = ack{value: v, gone: !there}
				continue
			}
			if there == a.gone || there && v != a.value {
				t.Errorf("round %d: %s: stored %d (there: %t), acknowledged %d (deleted: %t)", round, name, v, there, a.value, a.gone)
			}
		}
	}
	for name := range stored {
		if strings.HasPrefix(name, "w") {
			t.Errorf("round %d: %s: stored, but nobody wrote it", round, name)
		}
	}
}
