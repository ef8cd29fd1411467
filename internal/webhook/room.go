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

// classes bound all answers together to MostRooms, beside the free bytes of each.
var classes = [...]class{{1 << 20, 128}, {8 << 20, 16}, {MaxResponse, 4}}

// MostRooms is the number of bytes that Rooms have at most.
const MostRooms = 512 << 20

// Rooms is a counted set of rooms for each class: those of all webhooks of a server, or of one.
type Rooms [len(classes)]chan struct{}

// NewRooms returns the rooms for the answers of all webhooks of a server, in so many bytes; 0 means MostRooms. There is at least one
// room of each class, so that every answer is read at some time.
func NewRooms(bytes int64) *Rooms {
	if bytes == 0 || bytes > MostRooms {
		bytes = MostRooms
	}
	var r Rooms
	for i, c := range classes {
		r[i] = make(chan struct{}, max(1, int64(c.rooms)*bytes/MostRooms))
	}
	return &r
}

// share returns the rooms that one webhook may have.
func (r *Rooms) share() *Rooms {
	var own Rooms
	for i := range r {
		own[i] = make(chan struct{}, max(1, cap(r[i])/2))
	}
	return &own
}

// Bytes returns how many bytes the rooms have that are taken.
func (r *Rooms) Bytes() (n int64) {
	for i, c := range classes {
		n += c.bytes * int64(len(r[i]))
	}
	return n
}

// tenant is one call, which holds rooms until it is done.
type tenant struct {
	all, own *Rooms // of the server, and of the webhook

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
		for _, r := range []*Rooms{t.own, t.all} {
			select {
			case r[t.held] <- struct{}{}:
			case <-ctx.Done():
				if r == t.all {
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
		<-t.all[t.held-1]
		<-t.own[t.held-1]
	}
}
