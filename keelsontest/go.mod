module github.com/keelson-io/keelson/keelsontest

go 1.22
