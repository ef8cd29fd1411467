package etcd

// This file runs a cluster of three and takes its leader away.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/keelson-io/keelson/internal/store"
)

// startThree starts a cluster of three members on loopback.
func startThree(t *testing.T) ([]*embed.Etcd, []string) {
	t.Helper()
	address := func() url.URL {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return url.URL{Scheme: "http", Host: l.Addr().String()}
	}
	var configs []*embed.Config
	var initial, endpoints []string
	for i := range 3 {
		c := embed.NewConfig()
		c.Name, c.Dir = fmt.Sprint("m", i), t.TempDir()
		c.ListenPeerUrls, c.ListenClientUrls = []url.URL{address()}, []url.URL{address()}
		c.AdvertisePeerUrls, c.AdvertiseClientUrls = c.ListenPeerUrls, c.ListenClientUrls
		c.TickMs, c.ElectionMs, c.UnsafeNoFsync = 50, 500, true
		c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		configs = append(configs, c)
		initial = append(initial, c.Name+"="+c.ListenPeerUrls[0].String())
		endpoints = append(endpoints, c.ListenClientUrls[0].String())
	}
	var members []*embed.Etcd
	for _, c := range configs {
		c.InitialCluster = strings.Join(initial, ",")
		e, err := embed.StartEtcd(c)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, e)
		t.Cleanup(func() { kill(e) })
	}
	for _, e := range members {
		select {
		case <-e.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("cluster is not ready")
		}
	}
	return members, endpoints
}

// kill takes a member away with its connections, unless it has gone.
func kill(e *embed.Etcd) {
	select {
	case <-e.Server.StopNotify():
	default:
		e.Server.HardStop()
		e.Close()
	}
}

func TestLeaderLoss(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	members, endpoints := startThree(t)
	s := openTest(t, Config{Endpoints: endpoints, Logger: slog.New(slog.DiscardHandler)})
	rev, err := s.Create(ctx, "g/p/a", []byte("0"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(ctx, "", rev)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range members {
		if e.Server.Leader() == e.Server.MemberID() {
			kill(e)
			break
		}
	}
	written := 0
	for n := 1; written < 5 && ctx.Err() == nil; n++ {
		newRev, err := s.Update(ctx, "g/p/a", fmt.Append(nil, n), rev)
		var changed *store.Changed
		switch {
		case err == nil:
			rev = newRev
			written++
		case errors.As(err, &changed) && !changed.Gone: // a write whose answer was lost
			rev = changed.Current.Rev
		case errors.Is(err, store.ErrUnavailable):
			time.Sleep(50 * time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
	if written < 5 {
		t.Fatal("the cluster did not recover")
	}
	t.Logf("%d writes, to revision %d", written, rev)
	last := int64(0)
	for last < rev {
		b, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range b.Events {
			if last != 0 && ev.PrevRev != last {
				t.Errorf("event at %d replaces %d, but the one before was at %d", ev.Rev, ev.PrevRev, last)
			}
			last = ev.Rev
		}
	}
}
