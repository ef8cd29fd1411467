// This file reads the keys of a snapshot.

package command

import "strings"

// ResourceOf returns the resource of the object at a key of etcd. It returns false if the key does not hold an object,
// as the key of the data format does not. Keys are /PREFIX/RESOURCE/… for kinds of Kubernetes (a few
// have two names), and /PREFIX/GROUP/RESOURCE/… for others.
func ResourceOf(key string) (string, bool) {
	parts := strings.Split(strings.TrimPrefix(key, "/"), "/")
	if len(parts) < 3 || parts[1] == "keelson" {
		return "", false
	}
	if strings.Contains(parts[1], ".") || parts[1] == "services" {
		if len(parts) < 4 {
			return "", false
		}
		return parts[1] + "/" + parts[2], true
	}
	return parts[1], true
}
