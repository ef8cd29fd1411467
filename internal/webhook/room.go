package webhook

// This file bounds the memory of the answers that are read at the same time.
//
// An answer needs room of a class when it turns out to be longer than the class before. There are few rooms for long answers, and
// one webhook gets at most half of them, so that a slow or hostile one leaves rooms for others. An answer that finds none waits
// until its call's time is over. It waits with what it has of smaller classes; the holders of a class never wait for a smaller one,
// so that they cannot wait for each other.

import (
	"context"
	"sync"
)

const freeAnswer = 64 << 10 // bytes of an answer that need no room

// class is the length of answers that share rooms, and how many rooms there are.
type class struct {
	bytes int64
	rooms int
}

// classes bound all answers together to 512 MiB, beside the free bytes of each.
var classes = [...]class{{1 << 20, 128}, {8 << 20, 16}, {MaxResponse, 4}}

// rooms is a counted set of rooms for each class.
type rooms [len(classes)]chan struct{}

// newRooms returns the rooms of all webhooks, or of one if share is 2.
func newRooms(share int) *rooms {
	var r rooms
	for i, c := range classes {
		r[i] = make(chan struct{}, c.rooms/share)
	}
	return &r
}

// allRooms is for the answers of all webhooks of the process.
var allRooms = newRooms(1)

// tenant is one call, which holds rooms until it is done.
type tenant struct {
	own *rooms // of the webhook

	mu   sync.Mutex
	held int // classes of which it has a room
	left bool
}

type tenantKey struct{}

// grow waits until there is room for an answer of so many bytes.
func (t *tenant) grow(ctx context.Context, bytes int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.left && bytes > freeAnswer && (t.held == 0 || bytes > classes[t.held-1].bytes) && t.held < len(classes) {
		for _, r := range []*rooms{t.own, allRooms} {
			select {
			case r[t.held] <- struct{}{}:
			case <-ctx.Done():
				if r == allRooms {
					<-t.own[t.held]
				}
				return context.Cause(ctx)
			}
		}
		t.held++
	}
	return nil
}

// leave gives back all rooms.
func (t *tenant) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = true
	for ; t.held > 0; t.held-- {
		<-allRooms[t.held-1]
		<-t.own[t.held-1]
	}
}
