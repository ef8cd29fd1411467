package kubernetes_test

import (
	"fmt"

	"github.com/keelson-io/keelson/kubernetes"
)

// A release compiles new rules in the language of the release before it.
func ExampleParseReleases() {
	releases, err := kubernetes.ParseReleases("1.31-1.33")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range releases {
		fmt.Println(r, "compiles the language of", r.Compatible())
	}
	// Output:
	// 1.31 compiles the language of 1.30
	// 1.32 compiles the language of 1.31
	// 1.33 compiles the language of 1.32
}
