// Package fixtures starts servers for the tests beside it. It takes the place of upstream's fixture of this name: where that one
// runs the API server in the process of the tests, this one runs the keelson binary.
package fixtures

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	serveroptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	basecompatibility "k8s.io/component-base/compatibility"
)

// StartDefaultServer starts a server with a prefix of its own in etcd.
func StartDefaultServer(t servertesting.Logger, flags ...string) (func(), *rest.Config, *serveroptions.CustomResourceDefinitionsServerOptions, error) {
	prefix := uuid.New().String()
	for i, f := range flags {
		if f == "--etcd-prefix" {
			prefix = flags[i+1]
		}
	}
	dir, err := os.MkdirTemp("", "keelson-integration-")
	if err != nil {
		return nil, nil, nil, err
	}
	args := []string{"serve", "--data-dir", dir, "--secure-port", "0", "--etcd-servers", strings.Join(IntegrationEtcdServers(), ","),
		"--etcd-prefix", prefix, "--disable-admission-plugins", "NamespaceLifecycle"}
	args = append(args, flags...)
	config, stop, err := run(t, dir, args)
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, nil, err
	}
	options := serveroptions.NewCustomResourceDefinitionsServerOptions(io.Discard, io.Discard)
	options.RecommendedOptions.Etcd.StorageConfig.Prefix = prefix
	options.RecommendedOptions.Etcd.StorageConfig.Transport.ServerList = IntegrationEtcdServers()
	tearDown := func() {
		stop()
		os.RemoveAll(dir)
	}
	return tearDown, config, options, nil
}

// run starts the binary and waits until it is ready.
func run(t servertesting.Logger, dir string, args []string) (*rest.Config, func(), error) {
	cmd := exec.Command(os.Getenv("KEELSON_BIN"), args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() {
		cmd.Process.Signal(syscall.SIGTERM)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("keelson: %v\n%s", err, log.String())
			}
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			<-done
			t.Errorf("keelson did not stop within 20 s\n%s", log.String())
		}
		if os.Getenv("KEELSON_LOG") != "" {
			t.Logf("keelson's log:\n%s", log.String())
		}
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	path, ok := strings.CutPrefix(strings.TrimSpace(line), "export KUBECONFIG=")
	if err != nil || !ok {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, nil, fmt.Errorf("keelson did not start (%q, %v):\n%s", line, err, log.String())
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err == nil {
		config.QPS = -1
		err = ready(config)
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, nil, fmt.Errorf("%w\n%s", err, log.String())
	}
	return config, stop, nil
}

// ready waits until the server says that it is.
func ready(config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		resp, err := client.Get(config.Host + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("readyz: %s", resp.Status)
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// StartDefaultServerWithConfigAccess starts a server, and makes the configuration with which upstream's code reads etcd as that
// server does.
func StartDefaultServerWithConfigAccess(t servertesting.Logger, flags ...string) (func(), *rest.Config, apiserver.CompletedConfig, error) {
	tearDown, client, options, err := StartDefaultServer(t, flags...)
	if err != nil {
		return nil, nil, apiserver.CompletedConfig{}, err
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	generic.EffectiveVersion = basecompatibility.NewEffectiveVersionFromString("1.37", "1.37", "1.37")
	generic.ExternalAddress = "127.0.0.1:443"
	generic.LoopbackClientConfig = client
	generic.RESTOptionsGetter = serveroptions.NewCRDRESTOptionsGetter(*options.RecommendedOptions.Etcd, nil, nil)
	config := &apiserver.Config{GenericConfig: generic}
	return tearDown, client, config.Complete(), nil
}

// StartDefaultServerWithClients starts a server and returns clients of it.
func StartDefaultServerWithClients(t servertesting.Logger, flags ...string) (func(), clientset.Interface, dynamic.Interface, error) {
	tearDown, config, _, err := StartDefaultServer(t, flags...)
	if err != nil {
		return nil, nil, nil, err
	}
	typed, err := clientset.NewForConfig(config)
	if err != nil {
		tearDown()
		return nil, nil, nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		tearDown()
		return nil, nil, nil, err
	}
	return tearDown, typed, untyped, nil
}

// StartDefaultServerWithClientsAndEtcd starts a server and returns clients of it and of its etcd.
func StartDefaultServerWithClientsAndEtcd(t servertesting.Logger, flags ...string) (func(), clientset.Interface, dynamic.Interface, *clientv3.Client, string, error) {
	tearDown, config, options, err := StartDefaultServer(t, flags...)
	if err != nil {
		return nil, nil, nil, nil, "", err
	}
	typed, err := clientset.NewForConfig(config)
	if err != nil {
		tearDown()
		return nil, nil, nil, nil, "", err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		tearDown()
		return nil, nil, nil, nil, "", err
	}
	etcd, err := clientv3.New(clientv3.Config{Context: context.Background(), Endpoints: IntegrationEtcdServers(), DialTimeout: 20 * time.Second})
	if err != nil {
		tearDown()
		return nil, nil, nil, nil, "", err
	}
	return tearDown, typed, untyped, etcd, options.RecommendedOptions.Etcd.StorageConfig.Prefix, nil
}

// IntegrationEtcdServers returns the URLs of etcd.
func IntegrationEtcdServers() []string { return []string{os.Getenv("KUBE_INTEGRATION_ETCD_URL")} }
