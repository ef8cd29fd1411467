package keelsontest_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/keelson-io/keelson/keelsontest"
)

// In TestMain or BeforeSuite, where there is no testing.TB.
func ExampleNew() {
	s, err := keelsontest.New(context.Background(), keelsontest.CRDs("testdata/widgets.yaml"))
	if err != nil {
		log.Fatal(err)
	}
	// clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig()) is the configuration of client-go's clients.
	fmt.Println(strings.HasPrefix(s.URL(), "https://127.0.0.1:"))
	if err := s.Stop(); err != nil {
		log.Fatal(err)
	}
	// Output: true
}
