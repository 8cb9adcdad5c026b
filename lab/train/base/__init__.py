"""Training of the toyworld models: data, tokenizer, autoencoder, CLIP, U-Net."""
