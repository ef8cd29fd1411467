package http

import (
	"fmt"
	"strings"
)

// This file finds the lines in which two answers differ.

// change is a line of two texts that are compared: it is in the first alone (side 0), in the second alone (1), or in both (-1).
type change struct {
	side int
	line string
}

// changes are the lines of two texts, those of a longest common subsequence as one. What is between a common beginning and a common end
// and very long shares nothing.
func changes(x, y []string) []change {
	var out, tail []change
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		out = append(out, change{-1, x[0]})
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		tail = append(tail, change{-1, x[len(x)-1]})
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	n := common(x, y)
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case n != nil && i < len(x) && j < len(y) && x[i] == y[j]:
			out = append(out, change{-1, x[i]})
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && (n == nil || n[i+1][j] >= n[i][j+1]):
			out = append(out, change{0, x[i]})
			i++
		default:
			out = append(out, change{1, y[j]})
			j++
		}
	}
	for i := len(tail) - 1; i >= 0; i-- {
		out = append(out, tail[i])
	}
	return out
}

// common is the length of the longest common subsequence of what is in x from i and in y from j; nil of what is very long.
func common(x, y []string) [][]int32 {
	if len(x)*len(y) > 4<<20 {
		return nil
	}
	n := make([][]int32, len(x)+1)
	for i := range n {
		n[i] = make([]int32, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				n[i][j] = n[i+1][j+1] + 1
			} else {
				n[i][j] = max(n[i+1][j], n[i][j+1])
			}
		}
	}
	return n
}

// diff prints the lines in which two answers differ, after the first if that is not one of them.
func diff(a, b string) string {
	var out strings.Builder
	shown := 0
	for i, c := range changes(strings.Split(a, "\n"), strings.Split(b, "\n")) {
		if c.side < 0 && i > 0 {
			continue
		}
		if shown++; shown > 40 {
			break
		}
		line := c.line
		if len(line) > 700 {
			line = line[:700] + "…"
		}
		fmt.Fprintf(&out, "    %s %s\n", map[int]string{-1: " ", 0: "upstream", 1: "keelson "}[c.side], line)
	}
	return out.String()
}
