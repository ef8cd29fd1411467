package doctor

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/store/format"
)

// testDoctor returns a doctor for a machine with nothing wrong, and a data directory as a first
// start leaves it.
func testDoctor(t *testing.T) *doctor {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for _, folder := range []string{dir, datadir.PKI(dir), datadir.Etcd(dir), filepath.Join(datadir.Etcd(dir), "member")} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, format.File), fmt.Sprintf(`{"format":%d,"release":"v1"}`, format.Directory), 0o600)
	for _, name := range []string{datadir.Authority, datadir.Serving, datadir.Admin} {
		makePair(t, filepath.Join(datadir.PKI(dir), name), time.Now().Add(-time.Hour), time.Now().Add(300*24*time.Hour))
	}
	d := newDoctor(options{dataDir: dir, bindAddress: "127.0.0.1"})
	d.openFiles = func() int64 { return 65536 }
	d.freeBytes = func(string) (int64, error) { return 10 << 30, nil }
	d.timeSync = func(context.Context, string) (time.Duration, error) { return time.Millisecond, nil }
	return d
}

// write writes a file with a mode.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// makePair writes a self-signed certificate to path.crt, and its key to path.key.
func makePair(t *testing.T, path string, from, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: filepath.Base(path)}, NotBefore: from, NotAfter: until, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
	write(t, path+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), 0o600)
}

// remove removes files and folders.
func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// listen takes a port, and returns it.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// noRoot skips a test of permissions, which root does not need.
func noRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read and write everything")
	}
}

func TestNothingWrong(t *testing.T) {
	d := testDoctor(t)
	before := listing(t, d.dataDir)
	for _, f := range d.examine(t.Context()) {
		if f.Status != ok || f.Found == "" || f.Advice != "" {
			t.Errorf("got %+v, want ok", f)
		}
	}
	if after := listing(t, d.dataDir); after != before {
		t.Errorf("the data directory: got\n%s\nwant it unchanged\n%s", after, before)
	}
}

// listing returns the names and modes of all files below a directory.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, e.Type())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFindings changes one thing of a machine with nothing wrong, and expects one finding.
func TestFindings(t *testing.T) {
	day := 24 * time.Hour
	pki := func(d *doctor, name string) string { return filepath.Join(datadir.PKI(d.dataDir), name) }
	for name, row := range map[string]struct {
		change        func(t *testing.T, d *doctor)
		check, status string
		found, advice string
	}{
		"directory is missing": {func(t *testing.T, d *doctor) { remove(t, d.dataDir) }, "data-dir", ok, "keelson serve creates it", ""},
		"directory is a file": {func(t *testing.T, d *doctor) { remove(t, d.dataDir); write(t, d.dataDir, "", 0o600) },
			"data-dir", problem, "is not a directory", "--data-dir"},
		"directory is below a file": {func(t *testing.T, d *doctor) {
			remove(t, d.dataDir)
			write(t, d.dataDir, "", 0o600)
			d.dataDir += "/data"
		},
			"data-dir", problem, "not a directory", "--data-dir"},
		"directory is a dangling link": {func(t *testing.T, d *doctor) {
			remove(t, d.dataDir)
			if err := os.Symlink(d.dataDir+".gone", d.dataDir); err != nil {
				t.Fatal(err)
			}
		}, "data-dir", problem, "a link to a directory that is missing", "Mount the volume"},
		"directory is not writable": {func(t *testing.T, d *doctor) { noRoot(t); chmod(t, d.dataDir, 0o500) }, "data-dir", problem, "cannot write in it", "chown"},
		"parent is not writable": {func(t *testing.T, d *doctor) {
			noRoot(t)
			remove(t, d.dataDir)
			chmod(t, filepath.Dir(d.dataDir), 0o500)
		},
			"data-dir", problem, "cannot make it", "install -d"},

		"others read a key":       {func(t *testing.T, d *doctor) { chmod(t, pki(d, "ca.key"), 0o644) }, "permissions", problem, "ca.key has mode 0644: other users can use or replace the key", "chmod o-rwx"},
		"the group reads a key":   {func(t *testing.T, d *doctor) { chmod(t, pki(d, "ca.key"), 0o640) }, "permissions", ok, "neither read nor replace", ""},
		"others write":            {func(t *testing.T, d *doctor) { chmod(t, d.dataDir, 0o777) }, "permissions", problem, "replace the files in it", "chmod o-w"},
		"others look into etcd":   {func(t *testing.T, d *doctor) { chmod(t, datadir.Etcd(d.dataDir), 0o755) }, "permissions", warning, "look into it", "chmod o-rwx"},
		"others read a given key": {func(t *testing.T, d *doctor) { given(t, d, day*300); chmod(t, d.tlsKeyFile, 0o644) }, "permissions", warning, "given.key", "chmod o-rwx"},
		"format is newer":         {func(t *testing.T, d *doctor) { record(t, d, `{"format":99,"release":"v9"}`) }, "format", problem, "format 99", "keelson v9"},
		"format is older":         {func(t *testing.T, d *doctor) { remove(t, filepath.Join(d.dataDir, format.File)) }, "format", ok, "upgrades it", ""},
		"format is damaged":       {func(t *testing.T, d *doctor) { record(t, d, "{") }, "format", problem, "not readable", "put a copy in its place"},
		"store is missing":        {func(t *testing.T, d *doctor) { remove(t, datadir.Etcd(d.dataDir)) }, "store", problem, "is missing", "snapshot restore"},
		"no store yet":            {func(t *testing.T, d *doctor) { remove(t, datadir.Etcd(d.dataDir), datadir.PKI(d.dataDir)) }, "store", ok, "keelson serve creates it", ""},
		"restore was interrupted": {func(t *testing.T, d *doctor) { rename(t, datadir.Etcd(d.dataDir), datadir.Etcd(d.dataDir)+".part") }, "store", problem, "not complete", "snapshot restore"},
		"rest of a restore":       {func(t *testing.T, d *doctor) { mkdir(t, datadir.Etcd(d.dataDir)+".part") }, "store", warning, "left", "rm -r"},
		"rest of a first start":   {func(t *testing.T, d *doctor) { mkdir(t, filepath.Join(datadir.Etcd(d.dataDir), "first-start")) }, "store", warning, "first-start", "Start the server"},
		"rest of a renewal":       {func(t *testing.T, d *doctor) { write(t, pki(d, "serving.next"), "", 0o600) }, "store", warning, "serving.next", "Start the server"},
		"authority ends soon":     {func(t *testing.T, d *doctor) { makePair(t, pki(d, "ca"), time.Now().Add(-day), time.Now().Add(9*day)) }, "ca", warning, "in 8 days", "new authority"},
		"authority expired": {func(t *testing.T, d *doctor) {
			makePair(t, pki(d, "ca"), time.Now().Add(-day), time.Now().Add(-time.Hour))
		}, "ca", problem, "expired on", "new authority"},
		"authority lost its key": {func(t *testing.T, d *doctor) { remove(t, pki(d, "ca.key")) }, "ca", problem, "ca.key", "Put copies"},
		"authority is lost":      {func(t *testing.T, d *doctor) { remove(t, pki(d, "ca.key"), pki(d, "ca.crt")) }, "ca", problem, "ca.crt", "Put copies"},
		"no certificates":        {func(t *testing.T, d *doctor) { remove(t, datadir.PKI(d.dataDir)) }, "ca", ok, "next start creates it", ""},
		"serving expired": {func(t *testing.T, d *doctor) {
			makePair(t, pki(d, "serving"), time.Now().Add(-day), time.Now().Add(-time.Hour))
		}, "serving-cert", problem, "expired on", "next start"},
		"serving is missing": {func(t *testing.T, d *doctor) { remove(t, pki(d, "serving.crt")) }, "serving-cert", ok, "next start creates it", ""},
		"admin ends soon": {func(t *testing.T, d *doctor) {
			makePair(t, pki(d, "admin"), time.Now().Add(-day), time.Now().Add(9*day))
		}, "admin-cert", warning, "expires on", "next start"},
		"admin is damaged": {func(t *testing.T, d *doctor) { write(t, pki(d, "admin.crt"), "x", 0o600) }, "admin-cert", warning, "admin.crt", "next start"},
		"certificate from later": {func(t *testing.T, d *doctor) {
			makePair(t, pki(d, "admin"), time.Now().Add(day), time.Now().Add(9*day))
		}, "admin-cert", problem, "not valid before", "Set the clock"},
		"clock and certificate": {func(t *testing.T, d *doctor) {
			makePair(t, pki(d, "admin"), time.Now().Add(day), time.Now().Add(9*day))
		}, "clock", problem, "admin.crt is valid from", "Set the clock"},
		"clock and build":          {func(t *testing.T, d *doctor) { d.built = time.Now().Add(day) }, "clock", problem, "this program is of", "Set the clock"},
		"clock and files":          {func(t *testing.T, d *doctor) { touch(t, filepath.Join(d.dataDir, format.File), time.Now().Add(day)) }, "clock", problem, "was written at", "Set the clock"},
		"given certificate":        {func(t *testing.T, d *doctor) { given(t, d, 300*day) }, "tls-cert-file", ok, "is valid until", ""},
		"given one expired":        {func(t *testing.T, d *doctor) { given(t, d, -time.Minute) }, "tls-cert-file", problem, "expired on", "Replace the file"},
		"given one ends soon":      {func(t *testing.T, d *doctor) { given(t, d, day) }, "tls-cert-file", warning, "expires on", "Replace the file"},
		"given key does not fit":   {func(t *testing.T, d *doctor) { given(t, d, 300*day); d.tlsKeyFile = pki(d, "ca.key") }, "tls-cert-file", problem, "private key does not match", "Correct"},
		"given one is missing":     {func(t *testing.T, d *doctor) { d.tlsCertFile, d.tlsKeyFile = "none.crt", "none.key" }, "tls-cert-file", problem, "none.crt", "Correct"},
		"client authority":         {func(t *testing.T, d *doctor) { d.clientCAFile = pki(d, "ca.crt") }, "client-ca-file", ok, "is valid until", ""},
		"client authority is none": {func(t *testing.T, d *doctor) { d.clientCAFile = pki(d, "ca.key") }, "client-ca-file", problem, "no certificate in it", "Correct"},

		"port is taken":           {func(t *testing.T, d *doctor) { d.securePort = listen(t) }, "secure-port", problem, "is taken by another program", "the next free one is --secure-port "},
		"port of the server":      {func(t *testing.T, d *doctor) { hold(t, d); d.securePort = listen(t) }, "secure-port", ok, "which is expected", ""},
		"address of another host": {func(t *testing.T, d *doctor) { d.bindAddress, d.securePort = "203.0.113.1", 6443 }, "secure-port", problem, "203.0.113.1", "ip address"},
		"health port is taken": {func(t *testing.T, d *doctor) {
			d.healthAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(listen(t)))
		},
			"health-bind-address", problem, "is taken", "the next free one is --health-bind-address 127.0.0.1:"},
		"one port for both": {func(t *testing.T, d *doctor) { d.securePort, d.healthAddress = 7000, "127.0.0.1:7000" }, "health-bind-address", problem, "--secure-port, too", "another port"},
		"lock is held":      {func(t *testing.T, d *doctor) { hold(t, d) }, "lock", ok, "a server is running", ""},
		"lock is not held":  {func(t *testing.T, d *doctor) { hold(t, d).Close() }, "lock", ok, "no server is running", ""},
		"store in use":      {func(t *testing.T, d *doctor) { hold(t, d) }, "store", ok, "the running server uses it", ""},

		"few open files":       {func(_ *testing.T, d *doctor) { d.openFiles = func() int64 { return 1024 } }, "open-files", warning, "the limit is 1024, want at least 4096", "LimitNOFILE="},
		"unknown limit":        {func(_ *testing.T, d *doctor) { d.openFiles = func() int64 { return 0 } }, "open-files", ok, "does not report one", ""},
		"little space":         {func(_ *testing.T, d *doctor) { d.freeBytes = free(1<<30 - 1) }, "disk-space", warning, "1023 MiB", "Make room"},
		"too little space":     {func(_ *testing.T, d *doctor) { d.freeBytes = free(256<<20 - 1) }, "disk-space", problem, "255 MiB", "Make room"},
		"unknown space":        {func(_ *testing.T, d *doctor) { d.freeBytes = free(math.MaxInt64) }, "disk-space", ok, "not checked", ""},
		"slow disk":            {func(_ *testing.T, d *doctor) { d.timeSync = syncs11ms }, "disk-sync", warning, "11.0 ms", "SSD"},
		"disk with errors":     {func(_ *testing.T, d *doctor) { d.timeSync = syncsFail }, "disk-sync", problem, "cannot sync", "dmesg"},
		"disk that hangs":      {func(_ *testing.T, d *doctor) { d.limit = time.Millisecond; d.timeSync = syncsHang }, "disk-sync", problem, "no answer within", "dmesg"},
		"etcd does not answer": {func(_ *testing.T, d *doctor) { d.etcdServers = []string{"http://127.0.0.1:1"} }, "etcd", problem, "connection refused", "Check that etcd runs"},
		"etcd is not a URL":    {func(_ *testing.T, d *doctor) { d.etcdServers = []string{"etcd-1"} }, "etcd", problem, "want a URL", "Check that etcd runs"},
		"etcd authority":       {func(t *testing.T, d *doctor) { d.etcdCAFile = pki(d, "none") }, "etcd-cafile", problem, "none", "Correct"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDoctor(t)
			row.change(t, d)
			for _, f := range d.examine(t.Context()) {
				if f.Name != row.check {
					continue
				}
				if f.Status != row.status || !strings.Contains(f.Found, row.found) || !strings.Contains(f.Advice, row.advice) || (f.Status == ok) != (f.Advice == "") {
					t.Errorf("got %+v, want %s with %q and the advice %q", f, row.status, row.found, row.advice)
				}
				return
			}
			t.Errorf("no finding of %s", row.check)
		})
	}
}

func syncs11ms(context.Context, string) (time.Duration, error) { return 11 * time.Millisecond, nil }
func syncsFail(context.Context, string) (time.Duration, error) {
	return 0, errors.New("input/output error")
}
func syncsHang(context.Context, string) (time.Duration, error) { select {} }

// free returns a function that finds so many bytes free.
func free(bytes int64) func(string) (int64, error) {
	return func(string) (int64, error) { return bytes, nil }
}

// given sets --tls-cert-file to a certificate that is valid for a time from now.
func given(t *testing.T, d *doctor, left time.Duration) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "given")
	makePair(t, path, time.Now().Add(-time.Hour), time.Now().Add(left))
	d.tlsCertFile, d.tlsKeyFile = path+".crt", path+".key"
}

// record replaces the record of the format.
func record(t *testing.T, d *doctor, text string) {
	t.Helper()
	write(t, filepath.Join(d.dataDir, format.File), text, 0o600)
}

// hold locks the data directory as a server does.
func hold(t *testing.T, d *doctor) *os.File {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no locks that end with the process")
	}
	f, err := datadir.Lock(d.dataDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		t.Cleanup(func() { os.Chmod(path, 0o700) }) // so that it can be removed
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func touch(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestTimeSync holds that the measurement leaves no file behind, also if its time is up.
func TestTimeSync(t *testing.T) {
	dir := t.TempDir()
	if median, err := timeSync(t.Context(), dir); err != nil || median <= 0 {
		t.Errorf("got %v, %v, want a time", median, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := timeSync(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no file", left, err)
	}
}

// TestMissingDirectory holds that the command does not make the data directory, and measures the
// disk of its parent.
func TestMissingDirectory(t *testing.T) {
	parent := t.TempDir()
	d := testDoctor(t)
	d.dataDir, d.timeSync = filepath.Join(parent, "a", "b"), timeSync
	for _, f := range d.examine(t.Context()) {
		if f.Status == problem || f.Name == "disk-sync" && !strings.Contains(f.Found, "in "+parent+" takes") {
			t.Errorf("got %+v", f)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want an empty folder", left, err)
	}
}

func TestCommand(t *testing.T) {
	d := testDoctor(t)
	for name, row := range map[string]struct {
		args []string
		want string // in the error; "" for none
	}{
		"text":              {nil, ""},
		"json":              {[]string{"-o", "json"}, ""},
		"a format":          {[]string{"-o", "yaml"}, `-o: got "yaml", want text or json`},
		"an argument":       {[]string{"x"}, `got "x", want flags only`},
		"a port":            {[]string{"--secure-port", "70000"}, "got 70000, want a port"},
		"health":            {[]string{"--health-bind-address", "8081"}, "want an address and a port"},
		"half a pair":       {[]string{"--tls-cert-file", "x"}, "want both or none"},
		"half of etcd's":    {[]string{"--etcd-servers", "http://127.0.0.1:1", "--etcd-keyfile", "x"}, "want both or none"},
		"etcd without etcd": {[]string{"--etcd-cafile", "x"}, "without --etcd-servers"},
		"a problem":         {[]string{"--client-ca-file", "none"}, "doctor: 1 problem"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := Command()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{"--data-dir", d.dataDir, "--secure-port", "0"}, row.args...))
			err := cmd.ExecuteContext(t.Context())
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v, want %q\n%s", err, row.want, out.String())
			}
			if name == "json" {
				var got report
				if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Kind != "DoctorReport" || got.DataDir != d.dataDir || len(got.Checks) < 10 {
					t.Errorf("got %v\n%s", err, out.String())
				}
			}
		})
	}
}
