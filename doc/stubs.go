package doc

const nb = "BUG: not built yet"

func Duplicates(src []byte) []string                  { panic(nb) }
func MergePatch(target, patch []byte) ([]byte, error) { panic(nb) }
func JSONPatch(target, patch []byte) ([]byte, error)  { panic(nb) }
