// Package cluster holds what several Keelson processes on one etcd cluster promise, while any of the processes is killed at any time:
//
//   - A write that was acknowledged stays, and what each object says over time is linearizable: there is one order of all operations,
//     each between its request and its answer, in which they make sense. Package porcupine looks for that order.
//   - A watch that is resumed where it broke off, at whichever server, brings each change once, in order.
//   - Clients recover by themselves: they go on with the next server, or with the same when it is back.
//
// The processes are real ones, killed with SIGKILL: three members of etcd (this test's binary again) and three servers (the keelson
// binary; KEELSON_BIN names one to use in place of the one that would be built). The load runs for as long as flag -load says.
package cluster

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/keelson-io/keelson/conformance/internal/module"
	"github.com/keelson-io/keelson/internal/testdir"
)

// This file makes the binary the test, or a member of etcd.

var load = flag.Duration("load", 10*time.Second, "how long there is load, and processes are killed")

// memberEnv, in the environment, makes a process a member of etcd: its name, folder, client address, peer address, and all
// members' names and peer addresses, separated by spaces.
const memberEnv = "KEELSON_CLUSTER_MEMBER"

// keelson is the binary under test.
var keelson string

func TestMain(m *testing.M) {
	if args := os.Getenv(memberEnv); args != "" {
		if err := member(strings.Fields(args)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(testdir.Run(func(dir string) int { return run(m, dir) }))
}

func run(m *testing.M, dir string) int {
	var err error
	if keelson, err = module.Keelson(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// member serves until it is killed. Its writes are then in the page cache of the system, so that missing syncs would not be noticed.
func member(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("%s has %d words, want 5", memberEnv, len(args))
	}
	c := embed.NewConfig()
	c.Name, c.Dir = args[0], args[1]
	client, peer := url.URL{Scheme: "http", Host: args[2]}, url.URL{Scheme: "http", Host: args[3]}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = args[4]
	c.TickMs, c.ElectionMs = 30, 300
	c.UnsafeNoFsync = true
	c.LogLevel = "fatal"
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	return <-e.Err()
}
