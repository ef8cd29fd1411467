package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// This file starts processes and kills them.

// process is one that can be killed and started again.
type process struct {
	t    *testing.T
	name string
	args []string
	env  []string
	log  string // path

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer log.Close()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Errorf("%s: %v", p.name, err)
		p.cmd = nil
		return
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { cmd.Wait(); close(done) }(p.cmd, p.done)
}

// kill ends the process at once. One that ended by itself is a failure of the test.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	select {
	case <-p.done:
		b, _ := os.ReadFile(p.log)
		p.t.Errorf("%s ended by itself: %v\n%s", p.name, p.cmd.ProcessState, b[max(0, len(b)-4000):])
	default:
	}
	p.cmd.Process.Kill()
	<-p.done
	p.cmd = nil
}

// replica is a Keelson server and a client of its administrator.
type replica struct {
	process
	base, kubeconfig string
	config           *rest.Config
	http             *http.Client
}

// cluster is all processes.
type cluster struct {
	t        *testing.T
	members  []*process
	replicas []*replica
	kills    int
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	ports := freePorts(t, 9)
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	c := &cluster{t: t}
	var initial, clients []string
	for i := range 3 {
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, address(3+i)))
		clients = append(clients, "http://"+address(i))
	}
	for i := range 3 {
		name := fmt.Sprintf("m%d", i)
		args := []string{name, filepath.Join(dir, name), address(i), address(3 + i), strings.Join(initial, ",")}
		c.members = append(c.members, &process{t: t, name: "etcd member " + name, args: os.Args[:1], log: filepath.Join(dir, name+".log"),
			env: []string{memberEnv + "=" + strings.Join(args, " ")}})
	}
	for i := range 3 {
		data := filepath.Join(dir, fmt.Sprintf("k%d", i))
		c.replicas = append(c.replicas, &replica{
			process: process{t: t, name: fmt.Sprintf("server %d", i), log: data + ".log", args: []string{keelson, "serve", "--data-dir", data,
				"--secure-port", fmt.Sprint(ports[6+i]), "--etcd-servers", strings.Join(clients, ",")}},
			base: "https://" + address(6+i), kubeconfig: filepath.Join(data, "admin.kubeconfig"),
		})
	}
	for _, m := range c.members {
		t.Cleanup(m.kill)
		m.start()
	}
	for i, m := range c.members { // a server that finds nobody gives up soon
		c.untilWithin(time.Minute, m.name+" listens", func() bool { return listens(address(i)) })
	}
	for _, r := range c.replicas {
		t.Cleanup(r.kill)
		r.start()
	}
	for _, r := range c.replicas {
		r.waitReady(time.Minute)
	}
	return c
}

// listens reports whether somebody takes connections at an address.
func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func (c *cluster) all() []*process {
	all := append([]*process(nil), c.members...)
	for _, r := range c.replicas {
		all = append(all, &r.process)
	}
	return all
}

// harass kills processes until the context ends, and starts them again: a member, or a server, or one of each, or all servers.
// Two members of three are always there, because without them nothing goes on; that it goes on when they are back is told elsewhere.
func (c *cluster) harass(ctx context.Context, rng *rand.Rand) {
	for {
		var victims []*process
		member, server := c.members[rng.IntN(3)], &c.replicas[rng.IntN(3)].process
		switch n := rng.IntN(10); {
		case n < 4:
			victims = append(victims, member)
		case n < 7:
			victims = append(victims, server)
		case n < 9:
			victims = append(victims, member, server)
		default:
			victims = c.all()[3:]
		}
		pause(ctx, time.Duration(300+rng.IntN(700))*time.Millisecond)
		for _, p := range victims {
			p.kill()
			c.kills++
		}
		pause(ctx, time.Duration(rng.IntN(600))*time.Millisecond)
		for _, p := range victims {
			p.start()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (r *replica) waitReady(limit time.Duration) {
	r.t.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = r.connect(); err != nil {
			continue
		}
		var code int
		if code, _, err = r.do(context.Background(), "GET", "/readyz", ""); err == nil && code == http.StatusOK {
			return
		}
	}
	b, _ := os.ReadFile(r.log)
	r.t.Fatalf("%s is not ready: %v\n%s", r.name, err, b[max(0, len(b)-4000):])
}

// connect makes the client, as soon as there is a kubeconfig.
func (r *replica) connect() (err error) {
	if r.http != nil {
		return nil
	}
	if r.config, err = clientcmd.BuildConfigFromFlags("", r.kubeconfig); err != nil {
		return err
	}
	r.config.QPS = -1
	r.http, err = rest.HTTPClientFor(r.config)
	return err
}

// answerWithin is how long a client waits.
const answerWithin = 4 * time.Second

// do sends a request; body is JSON, or nothing. A patch is a merge patch.
func (r *replica) do(ctx context.Context, method, path, body string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && len(b) == 0 {
		err = errors.New("an answer without a body")
	}
	return resp.StatusCode, b, err
}

// lastPort makes sure that two tests of one run get different ports.
var lastPort atomic.Int32

// freePorts returns loopback ports that nobody listens on, below those that the system gives to clients: while a process is down,
// its port must not become some connection's own.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	lastPort.CompareAndSwap(0, 20000+rand.Int32N(8000))
	var ports []int
	for len(ports) < n {
		port := int(lastPort.Add(1))
		if port > 32000 {
			t.Fatal("no free ports")
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		ports = append(ports, port)
	}
	return ports
}
