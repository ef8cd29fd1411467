package examples

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testcerts"
)

// This file builds and starts the webhook of the authorization examples.

// startProgram builds and starts the webhook of authorization/webhook with a certificate, and returns
// the path of its kubeconfig, with the address that it listens on.
func startProgram(t *testing.T) string {
	folder, dir := filepath.Join("authorization", "webhook"), t.TempDir()
	program := filepath.Join(dir, "webhook")
	if out, err := exec.Command("go", "build", "-o", program, "./"+filepath.ToSlash(folder)).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certificate, key)
	command := exec.Command(program, "--address", "127.0.0.1:0", "--certificate", certificate, "--key", key)
	command.Stderr = t.Output()
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "serving ")
	if err != nil || !ok {
		t.Fatalf("got %q, %v, want the address", line, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "webhook.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := strings.Replace(string(text), "https://127.0.0.1:9443", address, 1)
	file := filepath.Join(dir, "webhook.kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// writeCertificate writes a certificate for 127.0.0.1 and its key.
func writeCertificate(t *testing.T, certificate, key string) {
	made := testcerts.Sign(t, &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, nil)
	private, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: made.Certificate[0]},
		key:         {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
