package admit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestBudget checks that a reader waits only for other readers of the same user.
func TestBudget(t *testing.T) {
	b := newBudget(100, 25)
	ctx, cancel := context.WithCancel(context.Background())
	if n, err := b.acquire(ctx, "mallory", 1000); n != 25 || err != nil {
		t.Fatalf("more than a share: got %d, %v, want 25", n, err)
	}
	cancel()
	if _, err := b.acquire(ctx, "mallory", 1); err == nil {
		t.Error("more than a share is taken")
	}
	for i := range 3 {
		if n, err := b.acquire(context.Background(), fmt.Sprint("user", i), 25); n != 25 || err != nil {
			t.Fatalf("user%d: got %d, %v, want 25", i, n, err)
		}
	}
	got := make(chan int64)
	go func() {
		n, _ := b.acquire(context.Background(), "ann", 20)
		got <- n
	}()
	b.release("mallory", 25)
	select {
	case n := <-got:
		b.release("ann", n)
	case <-time.After(10 * time.Second):
		t.Fatal("a user waits although there is room")
	}
	for i := range 3 {
		b.release(fmt.Sprint("user", i), 25)
	}
	if b.used != 0 || len(b.users) != 0 || b.waiting != 0 {
		t.Errorf("at the end %d bytes are used, by %v, and %d wait", b.used, b.users, b.waiting)
	}
}

// TestManyReadersWait lets 40,000 readers of one user wait, as many watches can at an event, while others come and go.
func TestManyReadersWait(t *testing.T) {
	b := newBudget(100, 50)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := b.acquire(ctx, "mallory", 50); err != nil {
		t.Fatal(err)
	}
	const many = 40_000
	var wg, waits sync.WaitGroup
	waits.Add(many)
	for i := range many {
		wg.Go(func() {
			inner, leave := context.WithCancel(ctx)
			defer leave()
			if i%2 == 0 {
				go func() { waits.Wait(); leave() }()
			}
			w := b.ask("mallory", 10)
			waits.Done()
			if w.wait(inner) == nil {
				b.release("mallory", w.n)
			}
		})
	}
	waits.Wait()
	for range 1000 {
		n, err := b.acquire(ctx, "jane", 50)
		if err != nil {
			t.Fatal(err)
		}
		b.release("jane", n)
	}
	b.release("mallory", 50)
	wg.Wait()
	if b.used != 0 || b.waiting != 0 || len(b.users) != 0 || b.blocked.Len() != 0 {
		t.Errorf("at the end %d bytes are used, by %v, and %d wait", b.used, b.users, b.waiting)
	}
}

// TestUsersWaitInTurn checks that users get room in turn when the budget is full, and that a user
// who leaves the line does not block it.
func TestUsersWaitInTurn(t *testing.T) {
	b := newBudget(100, 60)
	for user, n := range map[string]int64{"a": 60, "b": 40} {
		if _, err := b.acquire(context.Background(), user, n); err != nil {
			t.Fatal(err)
		}
	}
	gone, leave := context.WithCancel(context.Background())
	got := make(chan string)
	wait := func(ctx context.Context, user string, n int64) {
		w := b.ask(user, n)
		go func() {
			if err := w.wait(ctx); err != nil {
				user += " left"
			}
			got <- user
		}()
	}
	wait(gone, "c", 60)
	wait(context.Background(), "d", 20)
	wait(context.Background(), "d", 30)
	wait(context.Background(), "e", 20)
	middle, leaveMiddle := context.WithCancel(context.Background())
	wait(middle, "f", 60)
	leaveMiddle()
	if next := <-got; next != "f left" || b.users["f"] != nil {
		t.Errorf("got %s; what is kept of f: %v", next, b.users["f"])
	}
	b.release("b", 10) // too little for c, which is first in line
	b.release("b", 10)
	leave()
	if first, second := <-got, <-got; first+second != "c leftd" && first+second != "dc left" {
		t.Errorf("got %s and %s", first, second)
	}
	b.release("b", 20)
	if next := <-got; next != "e" {
		t.Errorf("the turn is e's: got %s", next)
	}
	b.release("a", 60)
	if next := <-got; next != "d" {
		t.Errorf("got %s, want d again", next)
	}
	b.release("d", 50)
	b.release("e", 20)
	if b.used != 0 || len(b.users) != 0 || b.waiting != 0 {
		t.Errorf("at the end %d bytes are used, by %v", b.used, b.users)
	}
}
