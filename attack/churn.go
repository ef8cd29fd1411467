package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// This file has the moves that write or connect as often as they can.

// churn replaces a few large objects again and again, so that history and log grow, and not what is stored.
func churn(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	const maps = "/api/v1/namespaces/arena/configmaps"
	crowd(rng, 1+m.Size/25, func(i int, rng *rand.Rand) {
		c := client(a, m.Actor, attackersAddress, true)
		defer c.CloseIdleConnections()
		letters := make([]byte, 1_000_000) // in no order, so that nothing is compressed
		for i := range letters {
			letters[i] = 'a' + byte(rng.IntN(26))
		}
		path := fmt.Sprint(maps, "/churn", i)
		hit(ctx, a, c, m.Actor, "POST", maps, fmt.Appendf(nil, `{"metadata":{"name":"churn%d"}}`, i))
		for n := 0; ctx.Err() == nil; n++ {
			r := hit(ctx, a, c, m.Actor, "PUT", path, fmt.Appendf(nil, `{"metadata":{"name":"churn%d"},"data":{"a":"%d%s"}}`, i, n, letters))
			if r.code != 200 {
				pause(ctx, 50*time.Millisecond)
			}
		}
	})
}

// connect opens as many connections in a second as it can, all from one address, and says nothing on them, or half a greeting.
func connect(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, 4+m.Size/12, func(_ int, rng *rand.Rand) {
		var open []net.Conn
		dialer := &net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}}
		for ctx.Err() == nil {
			c, err := dialer.DialContext(ctx, "tcp", a.server.address)
			if err != nil {
				pause(ctx, 20*time.Millisecond)
				continue
			}
			c.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[:9*rng.IntN(2)]))
			if open = append(open, c); len(open) > 1000+10*m.Size {
				open[0].Close()
				open = open[1:]
			}
		}
		for _, c := range open {
			c.Close()
		}
	})
}
