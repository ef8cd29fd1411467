// This file measures the validation of many manifests beside kubeconform: "bench validate".

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kubeconform is the other program, which is built at the time of the measurement.
const kubeconform = "github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0"

// validateRun is what one run of a program took.
type validateRun struct{ wall, cpu time.Duration }

// runValidate lets both programs check the same files in turns. What counts is the processor time, which other work on
// the machine changes least.
func runValidate(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("bench validate", flag.ExitOnError)
	rounds := fs.Int("rounds", 5, "rounds, each with a run of both programs")
	objects := fs.Int("n", 40_000, "objects, each of 1 KB of YAML, a hundred in a file")
	markdown := fs.String("o", "", "write the table as Markdown between the markers of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "keelson-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err := buildKeelson(ctx, dir)
	if err != nil {
		return err
	}
	say("building kubeconform")
	install := exec.CommandContext(ctx, "go", "install", kubeconform)
	install.Dir, install.Env = dir, append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", install, err, out)
	}
	if err := writeShops(dir, *objects); err != nil {
		return err
	}
	load := filepath.Join(dir, "load")
	programs := []struct {
		name string
		args []string
		runs []validateRun
	}{
		{name: "keelson", args: []string{bin, "validate", "-q", "--crd", filepath.Join(dir, "crd.yaml"), load}},
		{name: "kubeconform", args: []string{filepath.Join(dir, "kubeconform"), "-strict", "-n", "2", "-schema-location",
			filepath.Join(dir, "{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"), load}},
	}
	for i := range *rounds {
		for j := range programs {
			p := &programs[(i+j)%len(programs)]
			r, err := timeRun(ctx, p.args)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.runs = append(p.runs, r)
		}
	}
	var b strings.Builder
	b.WriteString("| program | wall time | processor time | processor time of an object |\n| --- | --- | --- | --- |\n")
	medians := make([]validateRun, len(programs))
	for i, p := range programs {
		medians[i] = medianRun(p.runs)
		fmt.Fprintf(&b, "| %s | %.2f s | %.2f s | %.0f µs |\n", p.name, medians[i].wall.Seconds(), medians[i].cpu.Seconds(),
			float64(medians[i].cpu.Microseconds())/float64(*objects))
	}
	fmt.Fprintf(&b, "\nkubeconform takes %.1f times the processor time, and %.1f times the wall time.\n",
		medians[1].cpu.Seconds()/medians[0].cpu.Seconds(), medians[1].wall.Seconds()/medians[0].wall.Seconds())
	fmt.Println(b.String())
	err = errors.Join(err, writeTable(*markdown, "validate", b.String()))
	if medians[0].cpu > medians[1].cpu {
		err = errors.Join(err, errors.New("validate is slower than kubeconform"))
	}
	return err
}

// timeRun runs a program that must find all objects valid.
func timeRun(ctx context.Context, args []string) (validateRun, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return validateRun{}, fmt.Errorf("%w\n%s", err, out[:min(len(out), 2000)])
	}
	return validateRun{time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// medianRun returns the medians of both times.
func medianRun(runs []validateRun) validateRun {
	at := func(of func(validateRun) time.Duration) time.Duration {
		all := make([]time.Duration, len(runs))
		for i, r := range runs {
			all[i] = of(r)
		}
		slices.SortFunc(all, cmp.Compare[time.Duration])
		return all[len(all)/2]
	}
	return validateRun{at(func(r validateRun) time.Duration { return r.wall }), at(func(r validateRun) time.Duration { return r.cpu })}
}

// writeShops writes the definition, the same as a JSON schema, and the objects.
func writeShops(dir string, objects int) error {
	if err := os.Mkdir(filepath.Join(dir, "load"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"crd.yaml", "shop_v1.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", "validate", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	shop, err := os.ReadFile(filepath.Join("testdata", "validate", "shop.yaml"))
	if err != nil {
		return err
	}
	for first := 0; first < objects; first += 100 {
		var b bytes.Buffer
		for i := first; i < min(first+100, objects); i++ {
			b.WriteString("---\n")
			b.Write(bytes.Replace(shop, []byte("shop-N"), fmt.Appendf(nil, "shop-%d", i), 1))
		}
		if err := os.WriteFile(filepath.Join(dir, "load", fmt.Sprintf("%05d.yaml", first/100)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
