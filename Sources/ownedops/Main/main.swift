import OwnedOpsTool

Tool.main()
