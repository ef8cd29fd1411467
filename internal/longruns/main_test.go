package main

import (
	"strings"
	"testing"
	"time"
)

func TestTotalsAreAddedForEachBinaryAndSummed(t *testing.T) {
	text := "# Title\n\nText.\n\n" + tableHead
	for _, r := range []row{
		{"aa", "fuzz", 1000, 30 * time.Minute, 0},
		{"aa", "fuzz", 500, 30 * time.Minute, 0},
		{"bb", "fuzz", 10, 6 * time.Minute, 1},
		{"bb", "kills", 200, 90 * time.Minute, 0},
	} {
		var err error
		if text, err = addToText(text, r); err != nil {
			t.Fatal(err)
		}
	}
	want := "# Title\n\nText.\n\n" + tableHead +
		"| aa | fuzz | 1500 executions | 1.00 | 0 |\n" +
		"| bb | fuzz | 10 executions | 0.10 | 1 |\n" +
		"| bb | kills | 200 kills | 1.50 | 0 |\n" +
		"| all | attack | 0 requests | 0.00 | 0 |\n" +
		"| all | fuzz | 1510 executions | 1.10 | 1 |\n" +
		"| all | kills | 200 kills | 1.50 | 0 |\n"
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for _, bad := range []string{"no table", tableHead + "| aa | fuzz | many | 1 | 0 |\n"} {
		if _, err := addToText(bad, row{}); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

func TestNumbersAreReadFromTheOutputOfTheRuns(t *testing.T) {
	for _, row := range []struct {
		output string
		want   int64
	}{
		{"fuzz: elapsed: 3s, execs: 42 (14/sec), new interesting: 0 (total: 4)\nfuzz: elapsed: 6s, execs: 99 (16/sec)\n", 99},
		{"no number\n", 0},
	} {
		if got := lastNumber(row.output, executions); got != row.want {
			t.Errorf("%q: got %d, want %d", row.output, got, row.want)
		}
	}
	if got := lastNumber("12 rounds in 1m0s; 345 ordinary requests, median 1ms", requests); got != 345 {
		t.Errorf("attack: got %d requests, want 345", got)
	}
	if got := lastNumber("    crash_test.go:64: 200 kills, 81231 acknowledged writes, 88.0 s", killed); got != 200 {
		t.Errorf("kills: got %d, want 200", got)
	}
}

func TestFuzzTargetsOfTheModuleAreFound(t *testing.T) {
	targets, err := fuzzTargets("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, target := range targets {
		found = found || strings.HasSuffix(target.dir, "jsondoc") && target.name == "FuzzParse"
		if strings.Contains(target.dir, "conformance") {
			t.Errorf("%v is in another module", target)
		}
	}
	if !found {
		t.Errorf("got %v, want jsondoc FuzzParse among them", targets)
	}
}
