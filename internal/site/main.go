// Command site makes the sources of the website, and checks the result:
//
//	go run ./internal/site -o .tmp/site       # what Hugo reads
//	go run ./internal/site -index .tmp/public # of what Hugo wrote, for the search
//	go run ./internal/site -check .tmp/public # what Hugo wrote
//
// "make site" does all of it. The pages are those of docs/, with a title and with links that a website
// needs. The reference of commands and metrics comes from the code, and the charts come from the
// tables in docs/benchmarks.md. With -pictures, the command writes the pictures of docs/ anew.
//
// The check fails for links and anchors that point nowhere, for pages of more than 300 KB with
// everything that they load, and for scripts other than that of the search.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// This file has the command line.

func main() {
	out := flag.String("o", "", "`directory` for the sources of the site")
	check := flag.String("check", "", "`directory` of the finished site, to check")
	index := flag.String("index", "", "`directory` of the finished site, to write the index of its search into")
	pictures := flag.Bool("pictures", false, "write the pictures of docs/ anew")
	flag.Parse()
	if err := run(*out, *index, *check, *pictures); err != nil {
		fmt.Fprintln(os.Stderr, "site: "+err.Error())
		os.Exit(1)
	}
}

func run(out, index, check string, pictures bool) error {
	switch {
	case pictures:
		for name, picture := range picturesOfDocs() {
			text, err := picture(".")
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join("docs", name), text, 0o644); err != nil {
				return err
			}
		}
		return nil
	case out != "":
		return build(".", out)
	case index != "":
		return writeIndex(index)
	case check != "":
		s, err := readSite(check)
		if err != nil {
			return err
		}
		if complaints := s.check(); len(complaints) > 0 {
			return errors.New("the site has mistakes:\n" + lines(complaints))
		}
		fmt.Println(s.summary())
		return nil
	}
	return errors.New("got no flag, want -o, -index, -check or -pictures")
}
