// Package nearest finds the name that a misspelled one probably stands for, to suggest it in errors.
//
// # Calls
//
// [Name], [Distance].
package nearest

import "strings"

// Name returns the name that differs least from a word: in letter case only, or by at most a
// third of its letters. It returns "" if there is none.
func Name(word string, names []string) string {
	best, least := "", max(1, len(word)/3)+1
	if word == "" {
		return ""
	}
	for _, name := range names {
		if d := Distance(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// Distance returns the number of letters to insert, delete, replace or swap with their neighbour to
// turn a into b (optimal string alignment). Texts above 64 bytes are not compared.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 1 << 10
	}
	var rows [3][65]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
