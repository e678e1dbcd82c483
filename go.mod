module runner

go 1.26
