// Command bench measures Keelson against upstream's apiextensions server.
//
// It starts both as child processes on the loopback interface: Keelson's binary with its embedded etcd, and upstream's
// server as the library k8s.io/apiextensions-apiserver with an etcd process of its own, which syncs to disk as Keelson's
// does. One client then gives both the same load in one run, in rounds that alternate between the two, so that a slow
// moment of the machine hits both; what counts is the ratio.
//
//	bench [-rounds 3] [-n 2000] [-c 16] [-o FILE,...] [-only upstream|keelson] [-run TEXT]
//	bench engine [-rounds 7] [-o FILE,...]
//	bench rules [-rounds 51] [-run TEXT] [-o FILE,...]
//	bench definitions [-n 2000] [-upstream 200] [-o FILE,...]
//	bench scale [-n 100000] [-watchers 10000] [-o FILE,...]
//	bench authz [-rounds 15] [-turns 500] [-o FILE,...]
//	bench admission [-rounds 15] [-o FILE,...]
//	bench fairness [-rounds 3] [-o FILE,...]
//	bench validate [-rounds 5] [-n 40000] [-o FILE,...]
//	bench compare -base COMMIT [-rounds 10] [-rows REGEXP] [-limit 3]
//
// The second form measures the engine alone, in this process; the third single rules of published definitions: Keelson's
// evaluation, a bare cel-go program, and upstream's validation of the rule; the fourth what authorization costs a
// request, and decisions by roles and by match conditions beside upstream's authorizers. Then comes admission beside
// upstream's dispatchers, then what a client that lists in a loop does to another client, and the offline validation of many manifests beside kubeconform. The last compares the work tree with an older commit, and fails if something became slower.
//
// The program runs itself again as "bench etcd" and "bench upstream" for the two child processes of upstream's side, as "bench lists" for the client that lists, and as "bench
// puts" for what etcd does alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "etcd":
			return runEtcd(ctx, args[1:])
		case "puts":
			return runPuts(ctx, args[1:])
		case "upstream":
			return runUpstream(ctx, args[1:])
		case "engine":
			return runEngine(args[1:])
		case "rules":
			return runRules(ctx, args[1:])
		case "definitions":
			return runDefinitions(ctx, args[1:])
		case "scale":
			return runScale(ctx, args[1:])
		case "authz":
			return runAuthz(ctx, args[1:])
		case "admission":
			return runAdmission(ctx, args[1:])
		case "validate":
			return runValidate(ctx, args[1:])
		case "fairness":
			return runFairness(ctx, args[1:])
		case "lists":
			return runLists(args[1:])
		case "compare":
			return runCompare(ctx, args[1:])
		}
	}
	var o options
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	fs.IntVar(&o.Rounds, "rounds", 3, "rounds; each measures every row on both servers")
	fs.IntVar(&o.Objects, "n", 2000, "objects created in a round, and listed at once")
	fs.IntVar(&o.Conns, "c", 16, "connections of the client")
	fs.IntVar(&o.Watchers, "watchers", 50, "watchers of the fan-out row")
	fs.IntVar(&o.Starts, "starts", 5, "starts measured for the row on start-up")
	fs.StringVar(&o.Dir, "dir", "", "folder for data directories, on a real disk (default: the system's temporary folder)")
	fs.StringVar(&o.Keelson, "keelson", "", "binary to measure (default: built from the module beside this one)")
	fs.StringVar(&o.Only, "only", "", "measure one side only: upstream or keelson")
	fs.StringVar(&o.Run, "run", "", "measure only rows whose names contain this; objects are created all the same")
	fs.StringVar(&o.Markdown, "o", "", "write the table as Markdown between the markers of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return measure(ctx, o)
}

// options says what is measured, and how much of it.
type options struct {
	Rounds, Objects, Conns, Watchers, Starts int
	Dir, Keelson, Only, Run, Markdown        string
}
