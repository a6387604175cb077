from words import main

main()
