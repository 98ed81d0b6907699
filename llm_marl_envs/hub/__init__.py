"""Teams on the Hugging Face Hub: what makes one, what is refused, how it comes here."""
