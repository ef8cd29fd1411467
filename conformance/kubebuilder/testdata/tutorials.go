// This program takes the place of hack/docs/generate_samples.go of Kubebuilder: it writes the same projects with the same code, with
// the kubebuilder binary and into the folder that it is told. Installers and charts, which come after that, are not made.
package main

import (
	"os"
	"path/filepath"

	cronjob "sigs.k8s.io/kubebuilder/v4/hack/docs/internal/cronjob-tutorial"
	gettingstarted "sigs.k8s.io/kubebuilder/v4/hack/docs/internal/getting-started"
	multiversion "sigs.k8s.io/kubebuilder/v4/hack/docs/internal/multiversion-tutorial"
)

type tutorial interface {
	Prepare()
	GenerateSampleProject()
	UpdateTutorial()
}

func main() {
	kubebuilder, book := os.Args[1], os.Args[2]
	// The tutorial on several versions copies from its neighbour.
	project := func(name string) string { return filepath.Join(book, name, "testdata", "project") }
	start := gettingstarted.NewSample(kubebuilder, project("getting-started"))
	write(&start)
	one := cronjob.NewSample(kubebuilder, project("cronjob-tutorial"))
	write(&one)
	first := cronjob.NewSample(kubebuilder, project("multiversion-tutorial"))
	write(&first)
	second := multiversion.NewSample(kubebuilder, project("multiversion-tutorial"))
	write(&second)
}

func write(t tutorial) {
	t.Prepare()
	t.GenerateSampleProject()
	t.UpdateTutorial()
}
