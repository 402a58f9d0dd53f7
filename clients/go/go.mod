module hasp

go 1.19
