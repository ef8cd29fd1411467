package atrest

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// This file names tables.

// maxName is the length of the longest name in PostgreSQL.
const maxName = 63

// tableName returns the name of the table for a kind: the kind, and the group if it is not the core
// group, in lower-case letters, with underscores in place of other characters.
func tableName(k Kind) string {
	text := k.Kind
	if k.Group != "" {
		text += "_" + k.Group
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, text)
	for _, reserved := range []string{"keelson_", "sqlite_", "pg_"} {
		if strings.HasPrefix(name, reserved) {
			name = "k_" + name
		}
	}
	if name[0] >= '0' && name[0] <= '9' {
		name = "k_" + name
	}
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(text))
		name = name[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return name
}

// isNameFor reports whether a name is one that freeName returns for a kind. Names in a database may be a stranger's.
func isNameFor(k Kind, name string) bool {
	if k.Kind == "" {
		return false
	}
	base := tableName(k)
	if name == base {
		return true
	}
	end := strings.LastIndexByte(name, '_') + 1
	number, err := strconv.Atoi(name[end:])
	return err == nil && number >= 2 && name == numbered(base, number)
}

// quoted returns the name of a table as an identifier of SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// numbered returns a name with a number at its end.
func numbered(name string, number int) string {
	suffix := "_" + strconv.Itoa(number)
	return name[:min(len(name), maxName-len(suffix))] + suffix
}

// freeName returns the name of the table for a kind, with a number if another kind has that name.
func freeName(k Kind, isTaken func(name string) bool) string {
	name := tableName(k)
	for i := 2; isTaken(name); i++ {
		name = numbered(tableName(k), i)
	}
	return name
}
