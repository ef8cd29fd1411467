package manifest

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// This file bounds globs, which may come from a stranger's repository: a match tries one alternative
// of braces after the other, so that a short glob with many braces would take years.

// Bounds of a glob.
const (
	maxGlob         = 1000 // bytes
	maxAlternatives = 1000 // {a,b}{c,d} has four
	maxBraces       = 10   // in one another
	maxDeep         = 4    // **, each of which is tried with any number of folders
)

// CheckGlob returns an error for a glob that is malformed, or that may take long to match.
func CheckGlob(glob string) error {
	switch {
	case len(glob) > maxGlob:
		return fmt.Errorf("a glob of %d bytes, want at most %d", len(glob), maxGlob)
	case !doublestar.ValidatePattern(glob):
		return fmt.Errorf("%q: %w", glob, doublestar.ErrBadPattern)
	}
	if n := strings.Count(tidyGlob(glob), "**"); n > maxDeep {
		return fmt.Errorf("%q: the glob has ** %d times, want at most %d times", glob, n, maxDeep)
	}
	a := alternatives{text: glob}
	if n := a.sequence(0); n > maxAlternatives || a.deep {
		return fmt.Errorf("%q: the braces of the glob have too many alternatives, want at most %d, and %d braces in one another", glob, maxAlternatives, maxBraces)
	}
	return nil
}

// tidyGlob returns a glob that matches the same, without repetitions of "**/".
func tidyGlob(glob string) string {
	for strings.Contains(glob, "**/**/") {
		glob = strings.ReplaceAll(glob, "**/**/", "**/")
	}
	return glob
}

// alternatives counts the texts without braces that a glob stands for.
type alternatives struct {
	text string
	at   int
	deep bool
}

// sequence counts those of the text up to a comma or the end of the braces that it is in.
func (a *alternatives) sequence(depth int) int {
	n := 1
	if a.deep = a.deep || depth > maxBraces; a.deep {
		return n
	}
	for a.at < len(a.text) {
		switch c := a.text[a.at]; {
		case c == '\\':
			a.at++
		case c == '{':
			sum := 0
			for {
				a.at++
				sum += a.sequence(depth + 1)
				if a.at >= len(a.text) || a.text[a.at] != ',' || a.deep {
					break
				}
			}
			n = min(n*sum, maxAlternatives+1)
		case depth > 0 && (c == ',' || c == '}'):
			return n
		}
		a.at++
	}
	return n
}
